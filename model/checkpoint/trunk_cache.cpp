#include "model/checkpoint/trunk_cache.hpp"

#include <fmt/format.h>

#include "model/checkpoint/checksum.hpp"
#include "model/checkpoint/repack.hpp"

namespace k3::checkpoint {

namespace fs = std::filesystem;

fs::path trunk_cache_path(const fs::path& root, const fs::path& model, const TrunkPrecision& precision) {
  std::error_code failed;
  fs::path real = fs::canonical(model, failed);
  if (failed) real = fs::absolute(model);
  const std::string path = real.string();
  return root / fmt::format("{}-{}-{}-{}-{:016x}", real.filename().string(), bits(precision.most), bits(precision.mla),
                            bits(precision.head), xxh64(path.data(), path.size()));
}

Result<Checkpoint> open_with_cached_trunk(const Checkpoint& model, std::span<const fs::path> others,
                                          const TrunkPrecision& precision, const fs::path& cache,
                                          const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  RepackOptions options;
  options.source = model.directory();
  options.destination = cache;
  options.precision = precision;
  options.contents = Contents::trunk;
  options.progress = progress;
  const auto made = repack(model, options);
  if (!made) {
    Error error = made.error();
    error.message = "keeping the rounded weights failed: " + error.message;
    return error;
  }
  std::vector<fs::path> directories{model.directory()};
  directories.insert(directories.end(), others.begin(), others.end());
  return Checkpoint::open(cache, directories);
}

}  // namespace k3::checkpoint
