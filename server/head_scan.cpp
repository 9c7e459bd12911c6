#include "server/head_scan.hpp"

namespace k3::server {
namespace {

constexpr std::string_view kVersion = " HTTP/d.d";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view HeadScan::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (done_) break;
    if (const std::string_view wrong = take(c); !wrong.empty()) return wrong;
  }
  return {};
}

std::string_view HeadScan::take(char c) {
  if (c == '\n') {
    if (last_ != '\r') return "a line of the head ends in LF without CR";
    done_ = line_length_ == 1;
    in_request_line_ = false;
    line_length_ = 0;
  } else {
    if (line_length_ == 0 && !in_request_line_ && (c == ' ' || c == '\t')) return "a header field is folded over two lines";
    if (in_request_line_ && c != '\r') {
      request_line_end_ += c;
      if (request_line_end_.size() > kVersion.size()) request_line_end_.erase(0, 1);
    }
    ++line_length_;
  }
  last_ = c;
  return {};
}

bool HeadScan::names_version() const {
  const std::string_view end = request_line_end_;
  return end.size() == kVersion.size() && end.starts_with(" HTTP/") && is_digit(end[6]) && end[7] == '.' && is_digit(end[8]);
}

}  // namespace k3::server
