// How fast the drive gives up the files of a model, read through the reader that fetches experts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.hpp"
#include "model/experts/files.hpp"

namespace k3::experts {

struct Place {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
};

class DriveMeter {
 public:
  static Result<DriveMeter> open(const std::vector<checkpoint::File>& files);

  // Bytes a second with `depth` reads of `block` bytes (a multiple of 4096) in flight, for about `seconds`.
  Result<double> run(unsigned depth, std::size_t block, double seconds);

  // As the experts of a token in one layer are read: whole, and all at once.
  Result<double> run_experts(std::size_t expert_bytes, double seconds);

  bool direct() const { return !files_.buffered; }
  const std::string& engine() const { return engine_; }  // of the last run

 private:
  std::vector<checkpoint::File> sizes_;
  OpenFiles files_;
  std::string engine_;
};

}  // namespace k3::experts
