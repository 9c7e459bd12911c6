// The shards, all copies of each, opened for reading past the page cache where their file system allows it.
#pragma once

#include "model/experts/descriptor.hpp"
#include "model/experts/layout.hpp"
#include "model/experts/replicas.hpp"

namespace k3::experts {

struct OpenFiles {
  std::vector<Descriptor> descriptors;
  std::vector<int> fds;                 // of `descriptors`, as readers want them
  std::vector<std::string> paths;       // [fds]
  std::vector<std::uint32_t> drives;    // [fds]
  std::vector<std::uint32_t> first{0};  // [files + 1]: a file's copies are from its number here up to the next one's
  bool buffered = false;                // direct reads were asked for and some file refused them

  Replicas replicas(Replicas::Clock clock) const { return {first, fds, drives, clock}; }
};

// Warns once when direct reads were asked for and some file refuses them, and for each copy that cannot be opened while another
// can.
Result<OpenFiles> open_files(const std::vector<checkpoint::File>& files, bool direct);

}  // namespace k3::experts
