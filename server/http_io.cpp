#include "server/http_io.hpp"

#include <fmt/format.h>

#include "model/text/json.hpp"

namespace k3::server {
namespace {

constexpr std::size_t kCopiedBody = 64 * 1024;

std::string_view reason(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Response";
  }
}

std::string_view error_type(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 505:
      return "invalid_request_error";  // the request is to change, not the server
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

void string_or_null(json::Writer& writer, std::string_view text) {
  if (text.empty()) {
    writer.null();
  } else {
    writer.string(text);
  }
}

}  // namespace

std::string error_json(const ApiError& error) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object().key("error").begin_object();
  writer.key("message").string(error.message);
  writer.key("type").string(error_type(error.status));
  writer.key("param");
  string_or_null(writer, error.param);
  writer.key("code");
  string_or_null(writer, error.code);
  for (const auto& [name, number] : error.details) writer.key(name).integer(number);
  // In the middle of a stream there is no header any more that could say it.
  for (const auto& [name, value] : error.headers) {
    if (name == "x-should-retry") writer.key("should_retry").boolean(value == "true");
  }
  writer.end_object().end_object();
  return text;
}

Response error_response(const ApiError& error) {
  return Response{.status = error.status, .body = error_json(error), .headers = error.headers, .code = error.code, .error = error};
}

std::string Exchange::head(const Response& response, std::string_view length_field) const {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason(response.status));
  if (!response.content_type.empty()) text += "Content-Type: " + response.content_type + "\r\n";
  bool cache_control = false;
  for (const auto& [name, value] : response.headers) {
    text += name + ": " + value + "\r\n";
    cache_control = cache_control || name == "Cache-Control";
  }
  if (!cache_control) text += "Cache-Control: no-store\r\n";
  if (!request_.allowed_origin.empty()) {
    text += "Access-Control-Allow-Origin: " + request_.allowed_origin + "\r\nVary: Origin\r\n";
    text +=
        "Access-Control-Expose-Headers: Retry-After, X-K3-Ignored, X-K3-Joined, X-K3-Warnings, X-Request-Id, X-Should-Retry\r\n";
  }
  text += "X-Content-Type-Options: nosniff\r\nX-Request-Id: " + request_.id + "\r\n";
  text += length_field;
  text += request_.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return text;
}

asio::awaitable<void> Exchange::respond(const Response& response) {
  status_ = response.status;
  error_code_ = response.code;
  const bool bodiless = response.status == 204;
  std::string translated;
  if (response.error && speaks_messages(request_.path)) translated = messages_error_json(*response.error, request_.id);
  const std::string& body = translated.empty() ? response.body : translated;
  std::string bytes = head(response, bodiless ? std::string() : fmt::format("Content-Length: {}\r\n", body.size()));
  const bool with_body = !bodiless && request_.method != "HEAD";
  // One write where a copy is cheap, so that a small response is one packet.
  const bool together = with_body && body.size() <= kCopiedBody;
  if (together) bytes += body;
  const bool written = co_await connection_.write(bytes);
  if (written && with_body && !together) co_await connection_.write(body);
}

asio::awaitable<bool> Exchange::open_stream(const Response& response) {
  status_ = response.status;
  // HTTP/1.0 knows no chunks: there the end of the connection ends the body.
  if (!request_.http11) request_.keep_alive = false;
  const std::string bytes = head(response, request_.http11 ? "Transfer-Encoding: chunked\r\n" : "");
  const bool written = co_await connection_.write(bytes);
  co_return written;
}

asio::awaitable<bool> Exchange::interim() {
  constexpr std::string_view interim = "HTTP/1.1 102 Processing\r\n\r\n";
  const bool written = co_await connection_.write(interim);
  co_return written;
}

asio::awaitable<bool> Exchange::chunk(std::string_view data) {
  const std::string bytes = request_.http11 ? fmt::format("{:x}\r\n{}\r\n", data.size(), data) : std::string(data);
  const bool written = co_await connection_.write(bytes);
  co_return written;
}

asio::awaitable<bool> Exchange::end_stream() {
  if (!request_.http11) co_return true;
  constexpr std::string_view last = "0\r\n\r\n";
  const bool written = co_await connection_.write(last);
  co_return written;
}

}  // namespace k3::server
