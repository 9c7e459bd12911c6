// One shard of a container on the drive: written, recognised, compared with its source. Its header's metadata says what it was made
// from, in which bits, and the checksum of each tensor, so that these travel with the file and cannot be there without it.
#pragma once

#include <filesystem>

#include "model/checkpoint/container_bytes.hpp"
#include "model/checkpoint/safetensors.hpp"

namespace k3::checkpoint {

// The checksums that a shard's header carries, in the order of the tensors' data; empty: it carries none.
std::vector<std::uint64_t> checksums_in(const Header& header);

std::string describe(const TrunkPrecision& precision);  // "8 8 8": --bits, --mla-bits, --head-bits

class ContainerFile {
 public:
  // `identity` is ContainerBytes' of the shard, which must outlive the object.
  ContainerFile(const std::filesystem::path& directory, const ContainerShard& shard, const TrunkPrecision& precision,
                std::string identity);

  std::uint64_t bytes() const { return header_.size() + shard_.data_bytes(); }
  // True: the file is there, whole by its size and header, of this source and these bits. False: it is missing, or damaged and may
  // be replaced. A file of another source, of other bits or of another maker is an error: it is not ours to overwrite.
  Result<bool> finished() const;
  // Bytes of a partial file, which writing again would free.
  std::uint64_t partial_bytes() const;

  // `progress(bytes)` (may be empty) after every block.
  using Advance = std::function<void(std::uint64_t bytes)>;
  Result<void> write(ContainerBytes& source, const Advance& progress) const;
  // Reads the file and the source again; the error names the first tensor that differs.
  Result<void> compare(ContainerBytes& source, const Advance& progress) const;

 private:
  std::string with_checksums(std::span<const std::uint64_t> checksums) const;
  Result<bool> replaceable() const;

  std::filesystem::path path_;
  const ContainerShard& shard_;
  std::string precision_, identity_;
  std::string header_;            // with zeros for checksums
  std::size_t checksums_at_ = 0;  // in header_
};

}  // namespace k3::checkpoint
