// Typed reading of a request's JSON fields. The first thing wrong is kept with the path of its field; reading goes on with
// defaults, so that a caller checks once at the end. An explicit null always means absent; unknown keys are nobody's business.
#pragma once

#include <optional>

#include "model/text/json.hpp"
#include "server/http_io.hpp"
#include "server/server.hpp"

namespace k3::server {

class Fields {
 public:
  // `object` must be one, and outlive this.
  explicit Fields(const json::Value& object, std::string prefix = {}) : object_(object), prefix_(std::move(prefix)) {}

  const json::Value* find(std::string_view name) const;  // nullptr for absent and for null
  const std::vector<json::Member>& members() const { return object_.members; }
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }

  bool boolean(std::string_view name, bool otherwise);
  // `low` <= value <= `high`; NaN and infinities are never taken.
  double number(std::string_view name, double otherwise, double low, double high);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  std::string string(std::string_view name, std::string otherwise);
  const json::Value* array(std::string_view name);
  const json::Value* object(std::string_view name);

  // Keeps the first error only.
  void refuse(std::string_view name, std::string message, std::string code = "invalid_value");
  void adopt(const Fields& nested);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  void wrong_type(std::string_view name, std::string_view expected, const json::Value& got);

  const json::Value& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

// A 400 about one field. People see the message alone, so it names the field whatever the words.
ApiError field_error(std::string_view path, std::string message, std::string code = "invalid_value");

// The body as a JSON object, or the error to answer.
boost::system::result<json::Value, ApiError> read_body(std::string_view text, const ServerOptions& options);

[[noreturn]] inline void throw_exception_from_error(const ApiError& error, const boost::source_location&) {
  throw std::runtime_error(error.message);
}

}  // namespace k3::server
