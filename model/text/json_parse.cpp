// Reading JSON: simdjson finds the structure and checks UTF-8; every value is walked, because On-Demand only checks what it visits.
#include <simdjson.h>

#include <charconv>
#include <span>

#include "model/text/json.hpp"
#include "model/text/json_number.hpp"

namespace k3::json {
namespace {

namespace od = simdjson::ondemand;

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

Error malformed(std::string message, std::int64_t offset) {
  Error error = fail(ErrorCode::invalid_argument, std::move(message));
  if (offset >= 0) error.message += " at byte " + std::to_string(offset);
  error.offset = offset;
  return error;
}

// Escapes were decoded by simdjson, whose releases differ on a lone low surrogate: what comes out must be UTF-8 in any case.
bool has_surrogate(std::string_view text) {
  for (std::size_t at = text.find('\xED'); at != std::string_view::npos; at = text.find('\xED', at + 1)) {
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xA0) return true;
  }
  return false;
}

// The four hexadecimal digits of the escape that begins at `at`, or -1 where there is no such escape.
int escaped_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int unit = 0;
  const auto [end, status] = std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
  return status == std::errc{} && end == text.data() + at + 6 && unit >= 0 ? unit : -1;
}

// In place, for the escape that is put there is as long as the one that goes. In JSON a backslash begins an escape wherever it
// stands.
void replace_lone_surrogates(std::span<char> text) {
  const std::string_view whole(text.data(), text.size());
  for (std::size_t at = whole.find('\\'); at != std::string_view::npos; at = whole.find('\\', at)) {
    const int unit = escaped_unit(whole, at);
    const int next = unit >= 0xD800 && unit < 0xDC00 ? escaped_unit(whole, at + 6) : -1;
    if (next >= 0xDC00 && next < 0xE000) {
      at += 12;
    } else if (unit >= 0xD800 && unit < 0xE000) {
      constexpr std::string_view replacement = "\\ufffd";
      std::copy(replacement.begin(), replacement.end(), text.begin() + static_cast<std::ptrdiff_t>(at));
      at += replacement.size();
    } else {
      at += 2;
    }
  }
}

class Walker {
 public:
  // The document lies in `wrapped` as `[document]`, so that a lone scalar is an ordinary value; `skipped` is what precedes it in
  // the caller's bytes (a byte order mark), less the bracket.
  Walker(const simdjson::padded_string& wrapped, std::int64_t shift, const ParseOptions& options)
      : wrapped_(wrapped), shift_(shift), max_depth_(options.max_depth), values_left_(options.max_values) {}

  Result<Value> run() {
    od::document document;
    if (auto code = parser_.iterate(wrapped_).get(document)) return broken(code, -1);
    document_ = &document;
    od::array outer;
    if (auto code = document.get_array().get(outer)) return broken(code, here());
    Value value;
    std::size_t count = 0;
    for (auto item : outer) {
      od::value element;
      if (auto code = item.get(element)) return broken(code, here());
      if (++count > 1) return malformed("JSON: something follows the document", here());
      if (auto error = read(element, value, 0)) return *error;
    }
    if (count == 0) return malformed("JSON: empty document", 0);
    // There is a place to be at only while tokens are left.
    if (!document.current_location().error()) return malformed("JSON: something follows the document", here());
    return value;
  }

 private:
  using Failure = std::optional<Error>;

  std::int64_t here() const {
    const char* place = nullptr;
    if (document_ == nullptr || document_->current_location().get(place)) return -1;
    return offset_of(place);
  }
  std::int64_t offset_of(const char* place) const {
    const std::int64_t offset = place - wrapped_.data() + shift_;
    return offset < 0 ? 0 : offset;
  }
  Error broken(simdjson::error_code code, std::int64_t offset) const {
    return malformed(std::string("JSON: ") + simdjson::error_message(code), offset);
  }

  Failure read(od::value element, Value& out, std::size_t depth) {
    if (values_left_ == 0) return malformed("JSON: too many values", here());
    --values_left_;
    od::json_type type;
    if (auto code = element.type().get(type)) return broken(code, here());
    switch (type) {
      case od::json_type::object:
        return read_object(element, out, depth + 1);
      case od::json_type::array:
        return read_array(element, out, depth + 1);
      case od::json_type::string:
        return read_string(element, out);
      case od::json_type::number:
        return read_number(element, out);
      case od::json_type::boolean:
        return read_literal(element, out);
      case od::json_type::null:
        return read_literal(element, out);
    }
    return malformed("JSON: unknown kind of value", here());
  }

  Failure read_object(od::value& element, Value& out, std::size_t depth) {
    const std::int64_t start = here();
    if (depth > max_depth_) return too_deep(start);
    out.kind = Value::Kind::object;
    od::object object;
    if (auto code = element.get_object().get(object)) return broken(code, start);
    for (auto item : object) {
      od::field field;
      if (auto code = std::move(item).get(field)) return broken(code, here());
      std::string_view key;
      if (auto code = field.unescaped_key().get(key)) return broken(code, here());
      if (has_surrogate(key)) return malformed("JSON: lone surrogate in a key", here());
      Member& member = out.members.emplace_back();
      member.key = key;
      if (auto error = read(field.value(), member.value, depth)) return error;
    }
    return {};
  }

  Failure read_array(od::value& element, Value& out, std::size_t depth) {
    const std::int64_t start = here();
    if (depth > max_depth_) return too_deep(start);
    out.kind = Value::Kind::array;
    od::array array;
    if (auto code = element.get_array().get(array)) return broken(code, start);
    for (auto item : array) {
      od::value child;
      if (auto code = item.get(child)) return broken(code, here());
      if (auto error = read(child, out.items.emplace_back(), depth)) return error;
    }
    return {};
  }

  Failure read_string(od::value& element, Value& out) {
    const std::int64_t start = here();
    std::string_view text;
    if (auto code = element.get_string().get(text)) return broken(code, start);
    if (has_surrogate(text)) return malformed("JSON: lone surrogate in a string", start);
    out.kind = Value::Kind::string;
    out.text = text;
    return {};
  }

  Failure read_number(od::value& element, Value& out) {
    const std::string_view literal = token(element);
    // Nobody else checks a raw token. It is not consumed either: the iteration around it steps over it.
    if (!is_number_literal(literal)) return malformed("JSON: not a number", offset_of(literal.data()));
    out.kind = Value::Kind::number;
    out.text = literal;
    return {};
  }

  Failure read_literal(od::value& element, Value& out) {
    const std::string_view literal = token(element);
    if (literal != "null" && literal != "true" && literal != "false") {
      return malformed("JSON: unknown literal", offset_of(literal.data()));
    }
    out.kind = literal == "null" ? Value::Kind::null : Value::Kind::boolean;
    out.boolean = literal == "true";
    return {};
  }

  // A scalar's text up to the next structural character, without the white space before that.
  static std::string_view token(od::value& element) {
    std::string_view text = element.raw_json_token();
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t')) {
      text.remove_suffix(1);
    }
    return text;
  }
  Error too_deep(std::int64_t start) const {
    return malformed("JSON: nested deeper than " + std::to_string(max_depth_) + " levels", start);
  }

  const simdjson::padded_string& wrapped_;
  std::int64_t shift_;
  std::size_t max_depth_;
  std::size_t values_left_;
  od::parser parser_;
  od::document* document_ = nullptr;
};

}  // namespace

Result<Value> parse(std::string_view text, ParseOptions options) {
  std::int64_t skipped = 0;
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
    skipped = static_cast<std::int64_t>(byte_order_mark.size());
  }
  simdjson::padded_string wrapped(text.size() + 2);
  if (wrapped.data() == nullptr) return fail(ErrorCode::out_of_memory, "JSON: no memory for the document");
  wrapped.data()[0] = '[';
  std::copy(text.begin(), text.end(), wrapped.data() + 1);
  wrapped.data()[text.size() + 1] = ']';
  if (options.replace_surrogates) replace_lone_surrogates({wrapped.data(), wrapped.size()});
  return Walker(wrapped, skipped - 1, options).run();
}

}  // namespace k3::json
