// A request's head as raw bytes: what Beast's parser takes for something else, and a strict server must refuse. A line that ends in
// a bare LF is a wrong version to it, and a field folded over two lines is one field; where two programs on the way read such a
// head differently, one request can hide in another.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace k3::server {

class HeadScan {
 public:
  // The bytes as they come, in any pieces; what follows the head is not looked at. Returns what is wrong with it, empty for
  // nothing.
  std::string_view feed(std::string_view bytes);
  // Whether the request line ends in a version of HTTP, be it one that is not spoken here.
  bool names_version() const;

 private:
  std::string_view take(char c);

  std::string request_line_end_;  // its last bytes
  std::size_t line_length_ = 0;
  char last_ = '\0';
  bool in_request_line_ = true;
  bool done_ = false;
};

}  // namespace k3::server
