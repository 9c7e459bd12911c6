// The shards, opened for reading past the page cache where their file system allows it.
#pragma once

#include "model/experts/descriptor.hpp"
#include "model/experts/layout.hpp"

namespace k3::experts {

struct OpenFiles {
  std::vector<Descriptor> descriptors;
  std::vector<int> fds;   // of `descriptors`, as readers want them
  bool buffered = false;  // direct reads were asked for and some file refused them
};

// Warns once when direct reads were asked for and some file refuses them.
Result<OpenFiles> open_files(const std::vector<checkpoint::File>& files, bool direct);

}  // namespace k3::experts
