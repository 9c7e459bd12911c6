// An answer as it arrives, for people: thinking dimmed on stderr, the answer on stdout, so that `k3 … > file` keeps the answer
// only.
#pragma once

#include <string>

#include "model/text/channel_parser.hpp"
#include "model/ticket.hpp"

namespace k3::cli {

class Screen {
 public:
  Screen();
  void event(const Event& event);  // progress of a long prompt, if stderr is a terminal
  void delta(const text::Delta& delta);
  void end();                              // leaves the cursor at the start of a line
  bool broken() const { return broken_; }  // stdout took no more

 private:
  void out(const std::string& text);
  void thinking(const std::string& text);
  void leave_thinking();
  void clear_status();

  bool colour_ = false;  // stderr is a terminal
  bool in_thinking_ = false;
  bool status_ = false;     // a progress line stands on the terminal
  bool line_open_ = false;  // the last character on stdout was no newline
  bool broken_ = false;
};

}  // namespace k3::cli
