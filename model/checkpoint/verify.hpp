// Is this checkpoint whole? What open() checks, and on demand every byte of every text tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/error.hpp"

namespace k3::checkpoint {

struct VerifyReport {
  std::vector<Error> findings;  // empty: clean. Each names file and offset where it has one
  std::uint64_t findings_left_out = 0;
  std::uint64_t files = 0;  // each copy of a shard counts
  std::uint64_t tensors = 0, bytes_read = 0;
  std::uint64_t compared = 0;  // tensors whose bytes were held against a checksum
  bool clean() const { return findings.empty(); }
};

// `full` reads all data with `threads` readers and reports what no released tensor holds: an expert scale of 255 (not a number in
// E8M0), NaN or infinity in BF16 and F32, ranges that cannot be read. A prepared container's shards carry checksums: there every
// byte that changed is found, by tensor and shard. Where a shard lies in several directories (`others`, as for Checkpoint::open),
// all copies are read and must hold the same. Reading goes on after a finding. `progress(done_bytes, total_bytes)` (may be empty)
// is called from the calling thread.
VerifyReport verify(const std::filesystem::path& directory, bool full, unsigned threads,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                    std::span<const std::filesystem::path> others = {});

}  // namespace k3::checkpoint
