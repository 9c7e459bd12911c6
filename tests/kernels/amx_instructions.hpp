// The instructions of AMX for a machine without them: while one of these exists, a thread that meets one does what the processor's
// manual says and goes on. So the very code of the tier amx runs anywhere.
#pragma once

#include <csignal>

namespace k3::kernels::test {

class PlayedInstructions {
 public:
  PlayedInstructions();
  ~PlayedInstructions();
  PlayedInstructions(const PlayedInstructions&) = delete;
  PlayedInstructions& operator=(const PlayedInstructions&) = delete;

  // How many were played; none where the processor has them.
  static unsigned long count();

 private:
  struct sigaction before_ = {};
};

}  // namespace k3::kernels::test
