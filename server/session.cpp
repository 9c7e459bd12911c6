// From bytes to requests: the only place that knows Beast's HTTP parser. Whatever is refused before its body has been read ends the
// connection, because what follows on it cannot be told from the unread body.
#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>

#include "server/app.hpp"
#include "server/client_wait.hpp"
#include "server/head_scan.hpp"
#include "server/router.hpp"

namespace k3::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr std::size_t kHeadPiece = 4096, kBodyPiece = 64 * 1024;  // read at a time

enum class Got { message, refusal, nothing };  // nothing: the peer has closed, or said nothing for too long

// What a failed read means for the peer.
Got judge(const Connection& connection, const error_code& error, ApiError& refusal) {
  const Limits& limits = connection.limits();
  if (connection.expired()) {
    refusal = {.status = 408, .message = "the request did not arrive in time", .code = "request_timeout"};
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    refusal = {.status = 431,
               .message = fmt::format("headers may have at most {} bytes", limits.header_bytes),
               .code = "headers_too_large"};
  } else if (error == http::error::body_limit) {
    refusal = {
        .status = 413, .message = fmt::format("a body may have at most {} bytes", limits.body_bytes), .code = "body_too_large"};
  } else if (error == http::error::bad_version) {
    refusal = {.status = 505, .message = "only HTTP/1.0 and HTTP/1.1 are spoken here", .code = "http_version"};
  } else if (error == http::error::end_of_stream || error == http::error::partial_message ||
             error.category() != http::make_error_code(http::error::bad_field).category()) {
    return Got::nothing;
  } else {
    refusal = {.status = 400, .message = "malformed HTTP request: " + error.message(), .code = "bad_request"};
  }
  return Got::refusal;
}

std::string_view bytes_in(const beast::flat_buffer& buffer) {
  const auto all = buffer.data();
  return {static_cast<const char*>(all.data()), all.size()};
}

// What came is in the buffer, and is what `fresh` shows.
asio::awaitable<error_code> read_more(Connection& connection, beast::flat_buffer& buffer, std::size_t most,
                                      std::string_view& fresh) {
  const std::size_t room = std::min<std::size_t>(buffer.max_size() - buffer.size(), most);
  if (room == 0) co_return make_error_code(http::error::buffer_overflow);
  const auto space = buffer.prepare(room);
  const auto read = co_await connection.read_some(space);
  buffer.commit(std::get<1>(read));
  fresh = bytes_in(buffer).substr(buffer.size() - std::get<1>(read));
  co_return std::get<0>(read);
}

// Waits for the first byte of a request. One empty line before it is let pass (RFC 9112 2.2): some clients end a body with one.
asio::awaitable<bool> await_request(Connection& connection, beast::flat_buffer& buffer, bool first) {
  const Limits& limits = connection.limits();
  bool skipped = false;
  // A kept connection's memory goes back while it is silent: there may be thousands.
  if (buffer.size() == 0) buffer.shrink_to_fit();
  // A fresh connection is expected to say something soon; a kept one may be silent for longer.
  connection.arm(first ? limits.header_deadline : limits.idle);
  for (;;) {
    const std::string_view got = bytes_in(buffer);
    if (got.starts_with("\r\n") && !skipped) {
      skipped = true;
      buffer.consume(2);
    } else if (!got.empty() && (got != "\r" || skipped)) {
      break;
    } else {
      std::string_view fresh;
      if (co_await read_more(connection, buffer, kHeadPiece, fresh)) break;
    }
  }
  connection.disarm();
  co_return buffer.size() > 0 && bytes_in(buffer) != "\r";
}

asio::awaitable<Got> read_head(Connection& connection, beast::flat_buffer& buffer, Parser& parser, bool first, ApiError& refusal) {
  if (!co_await await_request(connection, buffer, first)) co_return Got::nothing;
  connection.reading = true;
  std::string_view fresh = bytes_in(buffer);
  HeadScan scan;
  error_code error;
  connection.arm(connection.limits().header_deadline);
  for (;;) {
    if (const auto wrong = scan.feed(fresh); !wrong.empty()) {
      connection.disarm();
      refusal = {.status = 400, .message = "malformed HTTP request: " + std::string(wrong), .code = "bad_request"};
      co_return Got::refusal;
    }
    buffer.consume(parser.put(buffer.data(), error));
    if (error != http::error::need_more) break;
    error = co_await read_more(connection, buffer, kHeadPiece, fresh);
    if (error) break;
  }
  connection.disarm();
  if (!error) co_return Got::message;
  // To Beast any word that it does not know is a version.
  if (error == http::error::bad_version && !scan.names_version()) error = http::error::bad_field;
  co_return judge(connection, error, refusal);
}

// What has come of a body, for as long as it is being read; what has come of all of them together is bounded. Counting what is
// announced instead, a few clients that announce much and send nothing would keep everybody else out.
class BodyShare {
 public:
  explicit BodyShare(App& app) : app_(app) {}
  ~BodyShare() { app_.body_bytes -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  bool has_room(std::uint64_t bytes) const { return app_.body_bytes + bytes <= app_.options.limits.bodies_bytes; }
  bool add(std::size_t bytes) {
    bytes_ += bytes;
    app_.body_bytes += bytes;
    return has_room(0);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  App& app_;
  std::size_t bytes_ = 0;
};

// How long the rest of a body may take that began `began` and of which `got` bytes are here.
std::chrono::milliseconds patience(const Limits& limits, Clock::time_point began, std::size_t got) {
  const std::chrono::milliseconds paid(got * 1000 / limits.body_rate);
  const auto allowed = std::min(limits.body_deadline, limits.body_grace + paid);
  return std::chrono::duration_cast<std::chrono::milliseconds>(began + allowed - Clock::now());
}

// Reads until the parser has the whole message, or there is no room for more of it (no_buffer_space). The deadline moves with what
// has come, so that a drip does not keep a place.
asio::awaitable<error_code> receive(Connection& connection, beast::flat_buffer& buffer, Parser& parser, BodyShare& share) {
  const auto began = Clock::now();
  error_code error;
  parser.eager(true);
  while (!parser.is_done()) {
    if (buffer.size() > 0) {
      buffer.consume(parser.put(buffer.data(), error));
      if (error && error != http::error::need_more) co_return error;
      if (!error) continue;
    }
    std::string_view fresh;
    connection.arm(patience(connection.limits(), began, share.bytes()));
    error = co_await read_more(connection, buffer, kBodyPiece, fresh);
    connection.disarm();
    if (error) co_return error;
    if (!share.add(fresh.size())) co_return asio::error::no_buffer_space;
  }
  co_return error_code();
}

ApiError too_many_uploads() {
  return {.status = 503, .message = "too many uploads at once", .code = "busy", .headers = {{"Retry-After", "5"}}};
}

asio::awaitable<Got> read_body(Connection& connection, App& app, beast::flat_buffer& buffer, Parser& parser, ApiError& refusal) {
  if (parser.is_done()) co_return Got::message;
  const auto declared = parser.content_length();
  BodyShare share(app);
  if (!share.has_room(declared.value_or(0))) {
    refusal = too_many_uploads();
    co_return Got::refusal;
  }
  // Whoever has sent some of the body already does not wait to be asked for it, and HTTP/1.0 knows no interim response.
  if (!parser.get()[http::field::expect].empty() && buffer.size() == 0 && parser.get().version() >= 11) {
    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool told = co_await connection.write(go_on);
    if (!told) co_return Got::nothing;
  }
  const error_code error = co_await receive(connection, buffer, parser, share);
  // An answer can take hours: what was room for the body is not kept for it.
  if (buffer.size() == 0) buffer.shrink_to_fit();
  if (!error) co_return Got::message;
  if (error == asio::error::no_buffer_space) {
    refusal = too_many_uploads();
    co_return Got::refusal;
  }
  if (error == http::error::buffer_overflow) {
    refusal = {.status = 400, .message = "a chunk's head or the trailer fields are too long", .code = "bad_request"};
    co_return Got::refusal;
  }
  co_return judge(connection, error, refusal);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

// The path of a request target, decoded; false for a broken escape or an escaped NUL.
bool decode_path(std::string_view target, std::string& path) {
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    const int high = i + 2 < target.size() ? hex_digit(target[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(target[i + 2]) : -1;
    if (low < 0 || high * 16 + low == 0) return false;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string text_of(beast::string_view view) { return std::string(view.data(), view.size()); }

// How long the client will wait, and whether it has waited for the same before.
void describe_patience(const Parser::value_type& head, Request& request) {
  request.keepalive = text_of(head["x-keepalive"]);
  request.idempotency_key = text_of(head["idempotency-key"]);
  const auto retries = head["x-stainless-retry-count"];
  request.resent = retries.find_first_of("123456789") != beast::string_view::npos;
  request.sdk = std::any_of(head.begin(), head.end(),
                            [](const auto& field) { return beast::iequals(field.name_string().substr(0, 12), "x-stainless-"); });
}

// From the parsed head to a Request, or what is wrong with it that Beast takes for right.
std::optional<ApiError> describe(const Parser& parser, const Limits& limits, Request& request) {
  const auto& head = parser.get();
  // Where such a request ends is anybody's guess, so what follows it on the connection must not be taken for another.
  const auto refuse = [&request](std::string message) {
    request.keep_alive = false;
    return ApiError{.status = 400, .message = std::move(message), .code = "bad_request"};
  };
  request.method = text_of(head.method_string());
  request.http11 = head.version() >= 11;
  request.keep_alive = request.http11 && head.keep_alive();
  request.origin = text_of(head[http::field::origin]);
  request.authorization = text_of(head[http::field::authorization]);
  request.api_key = text_of(head["x-api-key"]);
  request.id = text_of(head["x-request-id"]);
  request.wanted_method = text_of(head["access-control-request-method"]);
  request.wanted_headers = text_of(head["access-control-request-headers"]);
  request.from_public_page = beast::iequals(head["access-control-request-private-network"], "true");
  request.has_length = head.count(http::field::content_length) > 0 || head.count(http::field::transfer_encoding) > 0;
  request.host = text_of(head[http::field::host]);
  describe_patience(head, request);
  std::string target = text_of(head.target());
  if (target.starts_with("http://")) {
    // The absolute form; its authority overrides the Host field (RFC 9112 3.2.2).
    const std::size_t slash = target.find('/', 7);
    request.host = target.substr(7, slash == std::string::npos ? slash : slash - 7);
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  if (!decode_path(path_of(target), request.path)) return refuse("malformed escape in the path");
  if (static_cast<std::size_t>(std::distance(head.begin(), head.end())) > limits.header_fields) {
    return ApiError{
        .status = 431, .message = fmt::format("at most {} header fields", limits.header_fields), .code = "headers_too_large"};
  }
  if (head.count(http::field::host) > 1 || (request.http11 && head.count(http::field::host) == 0))
    return refuse("exactly one Host field is needed");
  const auto length = head[http::field::content_length];
  if (head.count(http::field::content_length) > 1 || length.find(',') != beast::string_view::npos)
    return refuse("more than one Content-Length");
  if (head.count(http::field::transfer_encoding) > 0 && (head.count(http::field::transfer_encoding) > 1 || !request.http11 ||
                                                         !beast::iequals(head[http::field::transfer_encoding], "chunked"))) {
    return refuse("the only transfer encoding understood is chunked");
  }
  for (const auto& field : head) {
    if (field.name() != http::field::content_encoding || beast::iequals(field.value(), "identity")) continue;
    return ApiError{.status = 415,
                    .message = "a body must come as it is: no Content-Encoding is understood",
                    .code = "unsupported_encoding",
                    .headers = {{"Accept-Encoding", "identity"}}};
  }
  const auto expect = head[http::field::expect];
  if (request.http11 && !expect.empty() && !beast::iequals(expect, "100-continue")) {
    return ApiError{.status = 417, .message = "the only expectation met is 100-continue", .code = "expectation_failed"};
  }
  return std::nullopt;
}

// A client's own name for its request, where it cannot be anything else: it goes into the log and back to the client.
bool is_sane_id(std::string_view id) {
  constexpr std::size_t kLongest = 128;
  return !id.empty() && id.size() <= kLongest && std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

void count_and_log(const Exchange& exchange, App& app, Clock::time_point began) {
  const auto& request = exchange.request();
  ++app.metrics.requests[{endpoint_name(request.path), exchange.status(), exchange.outcome}];
  if (exchange.stalled()) ++app.metrics.backpressure_drops;
  if (!app.options.log_requests) return;
  app.log.write({.id = request.id,
                 .peer = exchange.peer(),
                 .key = request.key_name,
                 .method = request.method,
                 .path = request.path,
                 .status = exchange.status(),
                 .seconds = std::chrono::duration<double>(Clock::now() - began).count(),
                 .prompt_tokens = exchange.prompt_tokens,
                 .output_tokens = exchange.output_tokens,
                 .cut_thinking = exchange.cut_thinking,
                 .finish = exchange.outcome,
                 .code = exchange.error_code()});
}

// One request and its response; whether another may follow.
asio::awaitable<bool> serve_one(Connection& connection, App& app, beast::flat_buffer& buffer, bool first) {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(app.options.limits.header_bytes));
  parser.body_limit(app.options.limits.body_bytes);
  ApiError refusal;
  Got got = co_await read_head(connection, buffer, parser, first, refusal);
  if (got == Got::nothing) co_return false;
  const auto began = Clock::now();
  Request request;
  auto wrong = got == Got::message ? describe(parser, app.options.limits, request) : std::optional<ApiError>(refusal);
  // A head that is refused in the midst of it may have said where it goes: that decides in whose words it is told.
  const std::string target = text_of(parser.get().target());
  if (request.path.empty() && !decode_path(path_of(target), request.path)) request.path.clear();
  if (!is_sane_id(request.id)) request.id = "req-" + app.random_hex(16);
  request.allowed_origin = app.access.allowed_origin(request);
  if (!wrong) wrong = admit(request, app);
  if (wrong) {
    got = Got::refusal;
    refusal = std::move(*wrong);
  } else {
    got = co_await read_body(connection, app, buffer, parser, refusal);
  }
  if (got == Got::nothing) co_return false;
  request.keep_alive = request.keep_alive && parser.is_done() && !app.draining;
  if (got == Got::message) request.body = std::move(parser.get().body());
  connection.reading = false;
  connection.busy = true;
  Exchange exchange(connection, std::move(request));
  if (got == Got::message) {
    co_await dispatch(exchange, app);
  } else {
    const Response response = error_response(refusal);
    co_await exchange.respond(response);
  }
  count_and_log(exchange, app, began);
  if (exchange.keep_alive() && !app.draining) {
    connection.busy = false;
    co_return true;
  }
  if (!connection.broken()) co_await connection.linger();
  co_return false;
}

}  // namespace

asio::awaitable<void> run_session(std::shared_ptr<Connection> connection, App& app) {
  // Room for the largest head plus what is read ahead of it; what a client pipelines beyond that stays in the kernel.
  beast::flat_buffer buffer(app.options.limits.header_bytes + 64 * 1024);
  bool first = true;
  bool more = co_await connection->greet();
  if (!more) ++app.metrics.handshakes_failed;
  while (more) {
    more = co_await serve_one(*connection, app, buffer, first);
    first = false;
  }
  connection->close();
}

}  // namespace k3::server
