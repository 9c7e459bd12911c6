#include "model/checkpoint/repack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "model/checkpoint/container_directory.hpp"
#include "model/checkpoint/container_file.hpp"

namespace k3::checkpoint {
namespace {

namespace fs = std::filesystem;

// Progress is told this often: the call may print.
constexpr std::uint64_t told_bytes = 16U << 20;

class Meter {
 public:
  Meter(const std::function<void(std::uint64_t, std::uint64_t)>& progress, std::uint64_t total)
      : progress_(progress), total_(total) {}
  void advance(std::uint64_t bytes) {
    done_ += bytes;
    if (!progress_ || (done_ - told_ < told_bytes && done_ != total_)) return;
    told_ = done_;
    progress_(done_, total_);
  }
  std::uint64_t done() const { return done_; }

 private:
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  std::uint64_t total_, done_ = 0, told_ = 0;
};

class Repacker {
 public:
  Repacker(const RepackOptions& options, const Checkpoint& source, const ContainerPlan& plan)
      : options_(options), plan_(plan), bytes_(source) {
    report_.shards = plan.shards();
    last_ = options.last_shard == 0 ? plan.shards() : options.last_shard;
  }

  Result<RepackReport> run() {
    auto done = look();
    if (done) done = check_space();
    if (done) done = copy_small_files(options_.source, options_.destination);
    if (done) done = write();
    if (done && options_.compare) done = compare();
    if (done) done = finish();
    if (!done) return done.error();
    return report_;
  }

 private:
  struct Open {
    std::size_t number;
    std::uint64_t data_bytes;
  };

  // Calls `work(file, data_bytes)` for a shard of the container. Its plan lives as long as the call: a released one takes
  // megabytes.
  template <class Work>
  Result<void> with_shard(std::size_t number, const Work& work) {
    const ContainerShard shard = plan_.shard(number);
    auto identity = bytes_.identity(shard);
    if (!identity) return identity.error();
    return work(ContainerFile(options_.destination, shard, plan_.precision(), std::move(*identity)), shard.data_bytes());
  }

  // Which of the shards asked for are finished.
  Result<void> look() {
    for (std::size_t number = options_.first_shard - 1; number < last_; ++number) {
      auto done = with_shard(number, [&](const ContainerFile& file, std::uint64_t data_bytes) -> Result<void> {
        const auto finished = file.finished();
        if (!finished) return finished.error();
        asked_bytes_ += data_bytes;
        if (*finished) {
          ++report_.found;
          return {};
        }
        open_.push_back({number, data_bytes});
        needed_bytes_ += file.bytes() - std::min(file.bytes(), file.partial_bytes());
        return {};
      });
      if (!done) return done;
    }
    return {};
  }

  Result<void> check_space() const {
    std::error_code error;
    const auto space = fs::space(options_.destination, error);
    if (error || space.available >= needed_bytes_) return {};
    const auto gigabytes = [](std::uint64_t bytes) { return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9); };
    return Error{.code = ErrorCode::io,
                 .message = "not enough free space on the drive for the shards that are still to be written",
                 .file = options_.destination.string(),
                 .expected = gigabytes(needed_bytes_),
                 .got = gigabytes(space.available)};
  }

  Result<void> write() {
    std::uint64_t total = 0;
    for (const Open& open : open_) total += open.data_bytes;
    Meter meter(options_.progress, total);
    for (const Open& open : open_) {
      auto done = with_shard(open.number, [&](const ContainerFile& file, std::uint64_t) {
        return file.write(bytes_, [&](std::uint64_t bytes) { meter.advance(bytes); });
      });
      if (!done) {
        Error error = done.error();
        error.message += "; finished shards are kept, the same command goes on from there";
        return error;
      }
      ++report_.written;
    }
    report_.bytes = meter.done();
    return {};
  }

  Result<void> compare() {
    Meter meter(options_.compare_progress, asked_bytes_);
    for (std::size_t number = options_.first_shard - 1; number < last_; ++number) {
      auto done = with_shard(number, [&](const ContainerFile& file, std::uint64_t) {
        return file.compare(bytes_, [&](std::uint64_t bytes) { meter.advance(bytes); });
      });
      if (!done) return done;
    }
    report_.compared = meter.done();
    return {};
  }

  // Shards that other passes make may be there or not. A damaged one among them counts as missing.
  Result<void> finish() {
    for (std::size_t number = 0; number < plan_.shards(); ++number) {
      auto done = with_shard(number, [&](const ContainerFile& file, std::uint64_t) -> Result<void> {
        const auto finished = file.finished();
        if (!finished) return finished.error();
        report_.missing += *finished ? 0 : 1;
        return {};
      });
      if (!done) return done;
    }
    return report_.missing == 0 ? write_index(options_.destination, plan_) : Result<void>{};
  }

  const RepackOptions& options_;
  const ContainerPlan& plan_;
  ContainerBytes bytes_;
  std::size_t last_ = 0;
  std::vector<Open> open_;
  std::uint64_t asked_bytes_ = 0, needed_bytes_ = 0;
  RepackReport report_;
};

}  // namespace

Result<RepackReport> repack(const RepackOptions& options) {
  const auto source = Checkpoint::open(options.source, options.source_directories);
  if (!source) return source.error();
  return repack(*source, options);
}

Result<RepackReport> repack(const Checkpoint& source, const RepackOptions& options) {
  const auto stored = stored_precision(source);
  if (!stored) return stored.error();
  auto done = check_bits(*stored, options.precision);
  if (done) done = check_destination(options.source, options.destination);
  if (!done) return done.error();
  const auto plan = ContainerPlan::make(source, options.precision, options.contents);
  if (!plan) return plan.error();
  if (options.first_shard == 0 || options.first_shard > plan->shards() || options.last_shard > plan->shards() ||
      (options.last_shard != 0 && options.last_shard < options.first_shard)) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "the container has no such shards",
                 .expected = fmt::format("a range within 1 to {}", plan->shards()),
                 .got = fmt::format("{} to {}", options.first_shard, options.last_shard)};
  }
  done = claim_directory(options.destination, *plan);
  if (!done) return done.error();
  return Repacker(options, source, *plan).run();
}

}  // namespace k3::checkpoint
