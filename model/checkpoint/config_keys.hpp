// Reading keys of a JSON object, with errors that name the key, its value and what is supported. The first error wins; after it the
// readers return zeros, so that a list of reads needs one check at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.hpp"
#include "model/text/json.hpp"

namespace k3::checkpoint {

struct KeyErrors {
  std::string file;
  std::optional<Error> first;
};

class Keys {
 public:
  // `object` may be nullptr (its absence has been reported); `path` is what stands before a key in messages, e.g. "text_config.".
  Keys(const json::Value* object, std::string path, KeyErrors& errors)
      : object_(object), path_(std::move(path)), errors_(&errors) {}

  bool has(std::string_view key) const;  // present and not null
  Keys object(std::string_view key);
  std::size_t count(std::string_view key, std::int64_t least, std::int64_t most);
  float real(std::string_view key, double least, double most);
  std::vector<std::int64_t> list(std::string_view key, std::size_t most);

  // The key must be there with this value; may_be: if it is there, it must have this value.
  void must_be(std::string_view key, const char* value) { check_text(key, value, true); }
  void must_be(std::string_view key, bool value) { check_bool(key, value, true); }
  void must_be(std::string_view key, std::int64_t value) { check_int(key, value, true); }
  void must_be(std::string_view key, int value) { check_int(key, value, true); }
  void may_be(std::string_view key, const char* value) { check_text(key, value, false); }
  void may_be(std::string_view key, bool value) { check_bool(key, value, false); }
  void may_be(std::string_view key, std::int64_t value) { check_int(key, value, false); }
  void may_be(std::string_view key, int value) { check_int(key, value, false); }
  // A list of strings that, if it is there, must contain this one.
  void may_hold(std::string_view key, const char* value);

  void reject(std::string_view key, const std::string& got, const std::string& supported);
  bool failed() const { return errors_->first.has_value(); }
  Result<void> result() const;

 private:
  const json::Value* get(std::string_view key, bool required);
  void check_text(std::string_view key, std::string_view value, bool required);
  void check_bool(std::string_view key, bool value, bool required);
  void check_int(std::string_view key, std::int64_t value, bool required);

  const json::Value* object_;
  std::string path_;
  KeyErrors* errors_;
};

}  // namespace k3::checkpoint
