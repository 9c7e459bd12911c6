// A line for each request: who asked for what, and how it went. Never a body, a key or a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/server.hpp"

namespace k3::server {

struct LogLine {
  std::string_view id, peer, key, method, path;  // key: the name of the client's API key
  unsigned status = 0;                           // 0: the client left before it had one
  double seconds = 0;
  std::size_t prompt_tokens = 0, output_tokens = 0;
  bool cut_thinking = false;      // its tokens ran out while it still thought: there is no answer
  std::string_view finish, code;  // how an answer of the model ended; the code of an error response
};

// One line without its end. What clients send is cut and made printable, so that it can neither end a line nor fake a field.
std::string text_line(const LogLine& line);
std::string json_line(const LogLine& line, std::string_view time);

class RequestLog {
 public:
  // Errors (io): the log file cannot be opened.
  static Result<RequestLog> create(const ServerOptions& options);
  void write(const LogLine& line);

 private:
  struct File;
  std::shared_ptr<File> file_;  // null: to where spdlog's lines go
  LogFormat format_ = LogFormat::text;
};

// From here on the process' own messages are JSON lines too.
void make_messages_json();

}  // namespace k3::server
