#include "server/request_log.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "model/text/json.hpp"

namespace k3::server {
namespace {

constexpr std::size_t kLongestMethod = 20, kLongestPath = 200;

std::string printable(std::string_view text, std::size_t most) {
  std::string result;
  for (const char c : text.substr(0, most)) result += c > ' ' && c < 0x7f ? c : '?';
  return result;
}

std::string or_dash(std::string_view text) { return text.empty() ? "-" : std::string(text); }

// To whoever reads the line because a user said that the answer was empty.
constexpr std::string_view kCutThinking =
    "cut off while thinking: raise max_tokens, set reasoning_budget or lower reasoning_effort";

std::string time_now() {
  using namespace std::chrono;
  const auto now = floor<milliseconds>(system_clock::now());
  const auto part = now.time_since_epoch().count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(system_clock::to_time_t(now)), part);
}

// The message of a line as a JSON string, for spdlog's pattern.
class QuotedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string quoted = json::quoted(std::string_view(message.payload.data(), message.payload.size()));
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<QuotedMessage>(); }
};

}  // namespace

std::string text_line(const LogLine& line) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {:.3f}s prompt={} output={} {}", line.id, line.peer, or_dash(line.key),
                  printable(line.method, kLongestMethod), printable(line.path, kLongestPath), line.status, line.seconds,
                  line.prompt_tokens, line.output_tokens, or_dash(line.finish.empty() ? line.code : line.finish));
  if (line.cut_thinking) text += fmt::format(" ({})", kCutThinking);
  return text;
}

std::string json_line(const LogLine& line, std::string_view time) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object().key("time").string(time).key("id").string(line.id).key("peer").string(line.peer);
  if (!line.key.empty()) writer.key("key").string(line.key);
  writer.key("method").string(printable(line.method, kLongestMethod)).key("path").string(printable(line.path, kLongestPath));
  writer.key("status").integer(line.status).key("seconds").raw(fmt::format("{:.3f}", line.seconds));
  writer.key("prompt_tokens").integer(static_cast<std::int64_t>(line.prompt_tokens));
  writer.key("output_tokens").integer(static_cast<std::int64_t>(line.output_tokens));
  if (!line.finish.empty()) writer.key("finish").string(line.finish);
  if (line.cut_thinking) writer.key("cut_thinking").boolean(true).key("advice").string(kCutThinking);
  if (!line.code.empty()) writer.key("code").string(line.code);
  writer.end_object();
  return text;
}

struct RequestLog::File {
  int descriptor = -1;
  bool owned = false;
  bool failing = false;
  ~File() {
    if (owned) ::close(descriptor);
  }
  // One write a line, so that lines of several processes do not mix; and appending, so that a file cut to nothing goes on at its
  // start.
  void append(const std::string& line) {
    const bool written = ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    if (!written && !failing) spdlog::warn("the request log loses lines: {}", std::strerror(errno));
    failing = !written;
  }
};

Result<RequestLog> RequestLog::create(const ServerOptions& options) {
  RequestLog log;
  log.format_ = options.log_format;
  if (options.log_file.empty()) {
    if (options.log_format == LogFormat::json) log.file_ = std::make_shared<File>(STDERR_FILENO);
    return log;
  }
  const int descriptor = ::open(options.log_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (descriptor < 0) {
    return Error{.code = ErrorCode::io,
                 .message = std::string("cannot write the request log: ") + std::strerror(errno),
                 .file = options.log_file.string()};
  }
  log.file_ = std::make_shared<File>(descriptor, true);
  return log;
}

void RequestLog::write(const LogLine& line) {
  if (format_ == LogFormat::json) {
    file_->append(json_line(line, time_now()) + "\n");
  } else if (file_) {
    file_->append(time_now() + " " + text_line(line) + "\n");
  } else {
    spdlog::info("{}", text_line(line));
  }
}

void make_messages_json() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<QuotedMessage>('*').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})");
  spdlog::set_formatter(std::move(formatter));
}

}  // namespace k3::server
