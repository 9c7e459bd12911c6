// A request as the endpoints see it, and the exchange through which they answer it. No Beast here: only session.cpp knows how bytes
// become a Request, and a response head is short enough to be written by hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/connection.hpp"

namespace k3::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string id;            // X-Request-Id: the client's where it is sane, else ours
  std::string method, path;  // path without query, percent-decoded; "*" for OPTIONS *
  std::string host;          // of the Host field or the absolute URI, with port if given
  std::string origin, authorization, api_key;
  std::string keepalive, idempotency_key;     // X-Keepalive, Idempotency-Key
  bool sdk = false;                           // has an X-Stainless field: an SDK that sends again when it loses patience
  bool resent = false;                        // X-Stainless-Retry-Count is 1 or more
  std::string wanted_method, wanted_headers;  // of a preflight: what the page's request will be
  bool from_public_page = false;              // of a preflight: the browser asks whether a local network may be reached
  std::string allowed_origin;                 // the origin, where pages of it may read the response
  std::string key_name;                       // of the API key it came with
  bool has_length = false;                    // it says how long its body is
  std::string body;
  bool http11 = true;
  bool keep_alive = true;
};

// What goes wrong with a request, in OpenAI's words.
struct ApiError {
  unsigned status = 400;
  std::string message{};
  std::string param{};  // empty: null
  std::string code{};   // empty: null
  Headers headers{};    // of the response, e.g. Retry-After
  // Numbers for programs, added to the error object.
  std::vector<std::pair<std::string, std::int64_t>> details{};
};

struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body{};
  Headers headers{};
  std::string code{};  // of an error, for the log
  // What an error response was made of: whether it is told in OpenAI's words or in another protocol's is settled when it is sent.
  std::optional<ApiError> error{};
};

std::string error_json(const ApiError& error);  // {"error":{...}}
// The same as the Messages protocol has it, in which every error names its request: {"type":"error","error":{...},"request_id":...}
std::string messages_error_json(const ApiError& error, std::string_view request);
// Whether what is asked at this path is answered in that protocol.
bool speaks_messages(std::string_view path);
Response error_response(const ApiError& error);

class Exchange {
 public:
  // Both outlive the exchange.
  Exchange(Connection& connection, Request request) : connection_(connection), request_(std::move(request)) {}

  const Request& request() const { return request_; }
  // The body is wanted once; a generation that runs for hours must not hold it.
  std::string take_body() { return std::move(request_.body); }
  Connection& connection() { return connection_; }

  // Exactly one of these two answers a request. `response` must outlive the call.
  asio::awaitable<void> respond(const Response& response);
  asio::awaitable<bool> open_stream(const Response& head);
  asio::awaitable<bool> interim();  // 102 Processing, before either of them; HTTP/1.0 has none

  asio::awaitable<bool> chunk(std::string_view data);  // one HTTP chunk in one write
  asio::awaitable<bool> end_stream();
  void abandon() { request_.keep_alive = false; }  // the connection is closed after this exchange

  bool keep_alive() const { return request_.keep_alive && !connection_.broken(); }
  bool answered() const { return status_ != 0; }

  // For the log.
  unsigned status() const { return status_; }
  const std::string& peer() const { return connection_.peer(); }
  const std::string& error_code() const { return error_code_; }
  bool stalled() const { return connection_.stalled(); }
  std::size_t prompt_tokens = 0, output_tokens = 0;
  bool cut_thinking = false;      // the tokens ran out before the answer began
  std::string_view outcome = "";  // finish reason or why there is none; one of our own words, which live as long as the program

 private:
  std::string head(const Response& response, std::string_view length_field) const;

  Connection& connection_;
  Request request_;
  unsigned status_ = 0;
  std::string error_code_;
};

}  // namespace k3::server
