// A checkpoint rewritten as a prepared container: the trunk rounded once instead of at every start, experts in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "model/checkpoint/container_plan.hpp"
#include "model/checkpoint/precision.hpp"
#include "model/error.hpp"

namespace k3::checkpoint {

struct RepackOptions {
  std::filesystem::path source, destination;
  std::vector<std::filesystem::path> source_directories;  // in which shards of the source may lie too
  TrunkPrecision precision{Precision::int8, Precision::int8, Precision::int8};
  Contents contents = Contents::all;
  std::size_t first_shard = 1, last_shard = 0;  // of the container, counted from 1, both included; 0: to the end
  bool compare = false;                         // read what is there again, and compare it with the source
  // Called from the calling thread, with the bytes of the container.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{}, compare_progress{};
};

struct RepackReport {
  std::size_t shards = 0;              // of the whole container
  std::size_t written = 0, found = 0;  // of those asked for: made now, finished before
  std::size_t missing = 0;             // of the whole container; 0: the index is written
  std::uint64_t bytes = 0;             // written
  std::uint64_t compared = 0;          // bytes
};

// One pass over the source, shard by shard, in memory that does not grow with it. A finished shard is recognised and kept, whatever
// happened in between; each appears at once when it is whole, and the index when all are. The same source and bits give the same
// bytes.
Result<RepackReport> repack(const RepackOptions& options);
// Of a source that is open already.
Result<RepackReport> repack(const Checkpoint& source, const RepackOptions& options);

}  // namespace k3::checkpoint
