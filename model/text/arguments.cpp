#include "model/text/arguments.hpp"

#include <cstdint>

namespace k3::text {
namespace {

constexpr json::PythonStyle spaced{};
// Bounds the recursion over hostile text; a deeper value makes the arguments undecomposable, which renders them verbatim.
constexpr int max_depth = 200;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_code_point(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 63));
    out += static_cast<char>(0x80 | ((code >> 6) & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

// Walks JSON text that need not be strictly valid; every function says whether it could go on.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<std::vector<Argument>> object() {
    std::vector<Argument> result;
    skip_space();
    if (!take('{')) return std::nullopt;
    skip_space();
    if (take('}')) return result;
    while (true) {
      skip_space();
      Argument& argument = result.emplace_back();
      if (!string(&argument.key)) return std::nullopt;
      skip_space();
      if (!take(':')) return std::nullopt;
      skip_space();
      if (!value(argument)) return std::nullopt;
      skip_space();
      if (take('}')) return result;
      if (!take(',')) return std::nullopt;
    }
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }

  bool value(Argument& argument) {
    const std::size_t start = at_;
    const char first = peek();
    if (first == '"') {
      argument.type = "string";
      return string(&argument.text);
    }
    if (!skip_value(0)) return false;
    argument.type = first == '{'                   ? "object"
                    : first == '['                 ? "array"
                    : first == 't' || first == 'f' ? "boolean"
                    : first == 'n'                 ? "null"
                                                   : "number";
    argument.text = text_.substr(start, at_ - start);
    return true;
  }

  bool skip_value(int depth) {
    if (depth > max_depth) return false;
    switch (peek()) {
      case '"':
        return string(nullptr);
      case '{':
        return skip_object(depth);
      case '[':
        return skip_array(depth);
      default:
        return take("true") || take("false") || take("null") || take("NaN") || take("Infinity") || take("-Infinity") || number();
    }
  }

  bool skip_object(int depth) {
    take('{');
    skip_space();
    if (take('}')) return true;
    while (true) {
      skip_space();
      if (!string(nullptr)) return false;
      skip_space();
      if (!take(':')) return false;
      skip_space();
      if (!skip_value(depth + 1)) return false;
      skip_space();
      if (take('}')) return true;
      if (!take(',')) return false;
    }
  }

  bool skip_array(int depth) {
    take('[');
    skip_space();
    if (take(']')) return true;
    while (true) {
      skip_space();
      if (!skip_value(depth + 1)) return false;
      skip_space();
      if (take(']')) return true;
      if (!take(',')) return false;
    }
  }

  // The longest number at this place; what follows it is the caller's business ("1." leaves the point, which nothing accepts).
  bool number() {
    const std::size_t start = at_;
    take('-');
    if (!is_digit(peek())) {
      at_ = start;
      return false;
    }
    if (!take('0')) digits();
    const std::size_t integer_end = at_;
    if (!take('.') || !digits()) at_ = integer_end;
    const std::size_t fraction_end = at_;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) at_ = fraction_end;
    }
    return true;
  }
  bool digits() {
    const std::size_t start = at_;
    while (is_digit(peek())) ++at_;
    return at_ > start;
  }

  // A string at this place, decoded into `out` where one is given. A lone surrogate has no UTF-8 and fails when decoded.
  bool string(std::string* out) {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        if (out) *out += c;
      } else if (!escape(out)) {
        return false;
      }
    }
    return false;
  }

  bool escape(std::string* out) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    char plain = c;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        break;
      case 'b':
        plain = '\b';
        break;
      case 'f':
        plain = '\f';
        break;
      case 'n':
        plain = '\n';
        break;
      case 'r':
        plain = '\r';
        break;
      case 't':
        plain = '\t';
        break;
      case 'u':
        return unicode(out);
      default:
        return false;
    }
    if (out) *out += plain;
    return true;
  }

  bool unicode(std::string* out) {
    std::uint32_t code = 0;
    if (!hex4(code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      const std::size_t back = at_;
      std::uint32_t low = 0;
      at_ += 2;
      if (hex4(low) && low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        at_ = back;
      }
    }
    if (!out) return true;
    if (code >= 0xD800 && code < 0xE000) return false;
    append_code_point(*out, code);
    return true;
  }

  bool hex4(std::uint32_t& code) {
    if (text_.size() - at_ < 4) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_ + static_cast<std::size_t>(i)];
      const char lower = static_cast<char>(c | 0x20);
      if (!is_digit(c) && (lower < 'a' || lower > 'f')) return false;
      code = code * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    at_ += 4;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string_view type_of(const json::Value& value) {
  static constexpr std::string_view names[] = {"null", "boolean", "number", "string", "array", "object"};
  return names[static_cast<std::size_t>(value.kind)];
}

}  // namespace

std::vector<Argument> arguments_of(const json::Value& object) {
  std::vector<Argument> result;
  for (const json::Member* member : json::unique_members(object)) {
    const json::Value& value = member->value;
    result.push_back({member->key, type_of(value), value.is_string() ? value.text : json::python_dumps(value, spaced)});
  }
  return result;
}

std::optional<std::vector<Argument>> arguments_of(std::string_view text) { return Scanner(text).object(); }

}  // namespace k3::text
