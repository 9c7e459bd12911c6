// JSON for requests, configs and prompts. Numbers stay the text they were written as, so that 1e2, 2^64 and -0 survive
// a round trip into a prompt; duplicate keys are all kept, in order.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/error.hpp"

namespace k3::json {

struct Member;

// A parsed document. `text` holds the decoded string, or a number's literal exactly as written.
struct Value {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::string text;
  std::vector<Value> items;     // of an array
  std::vector<Member> members;  // of an object, in document order, duplicates kept

  bool is_null() const { return kind == Kind::null; }
  bool is_bool() const { return kind == Kind::boolean; }
  bool is_number() const { return kind == Kind::number; }
  bool is_string() const { return kind == Kind::string; }
  bool is_array() const { return kind == Kind::array; }
  bool is_object() const { return kind == Kind::object; }

  // The last member of that name (JSON's usual reading of duplicates), or nullptr; also nullptr when not an object.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }
  // Number as a double (correctly rounded; overflow gives an infinity), or an error when not a number.
  Result<double> as_double() const;
  // Integral number in int64 range ("5", "5.0" and "5e0" count), else an error naming the literal.
  Result<std::int64_t> as_int() const;
};

struct Member {
  std::string key;
  Value value;
};

struct ParseOptions {
  std::size_t max_depth = 64;
  // A value takes some 90 bytes, however short it is written: `[1,1,1…]` of 30 MB would take gigabytes.
  std::size_t max_values = std::size_t{1} << 40;
  // An escape of a lone surrogate, which no UTF-8 can spell, becomes U+FFFD instead of an error.
  bool replace_surrogates = false;
};

// Parses one whole document; trailing garbage, bad UTF-8, lone surrogates and excess (see ParseOptions) are errors with a byte offset.
Result<Value> parse(std::string_view text, ParseOptions options = {});

// Appends to a string; commas are its business. Strings escape `"` `\` and control characters, everything else is raw UTF-8.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  Writer& begin_object();
  Writer& end_object();
  Writer& begin_array();
  Writer& end_array();
  Writer& key(std::string_view name);
  Writer& string(std::string_view text);
  Writer& boolean(bool value);
  Writer& null();
  Writer& integer(std::int64_t value);
  Writer& number(double value);           // shortest round trip; a non-finite value is written as null
  Writer& raw(std::string_view literal);  // a literal or document already in JSON
  Writer& value(const Value& value);      // compact, keys in document order, numbers as written

 private:
  void separate();
  std::string& out_;
  std::vector<bool> has_items_;
  bool after_key_ = false;
};

// Python's json.dumps(ensure_ascii=False) as K3's prompts need it: floats as repr, ints exact, last duplicate wins at the
// first position. `sort_keys` sorts recursively by code point.
struct PythonStyle {
  bool sort_keys = false;
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};
std::string python_dumps(const Value& value, const PythonStyle& style);

// The members of an object as a Python dict holds them: each key once, at its first place, with its last value.
std::vector<const Member*> unique_members(const Value& object);

// `text` as a JSON string literal with its quotes.
std::string quoted(std::string_view text);

}  // namespace k3::json
