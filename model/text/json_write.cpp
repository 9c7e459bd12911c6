// Writing JSON: the compact writer of answers, and Python's dumps of prompts.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "model/text/json.hpp"
#include "model/text/json_number.hpp"

namespace k3::json {
namespace {

// Escapes what JSON requires and no more, with the short forms where there are any: this is also what Python writes.
void append_quoted(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += hex[c >> 4];
          out += hex[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_python(std::string& out, const Value& value, const PythonStyle& style);

void append_python_object(std::string& out, const Value& value, const PythonStyle& style) {
  std::vector<const Member*> members = unique_members(value);
  // Bytes of UTF-8 sort as code points do, and std::string compares bytes unsigned.
  if (style.sort_keys) std::ranges::sort(members, [](const Member* a, const Member* b) { return a->key < b->key; });
  out += '{';
  bool first = true;
  for (const Member* member : members) {
    if (!first) out += style.item_separator;
    first = false;
    append_quoted(out, member->key);
    out += style.key_separator;
    append_python(out, member->value, style);
  }
  out += '}';
}

void append_python(std::string& out, const Value& value, const PythonStyle& style) {
  switch (value.kind) {
    case Value::Kind::null:
      out += "null";
      break;
    case Value::Kind::boolean:
      out += value.boolean ? "true" : "false";
      break;
    case Value::Kind::string:
      append_quoted(out, value.text);
      break;
    case Value::Kind::object:
      append_python_object(out, value, style);
      break;
    case Value::Kind::number:
      if (!is_integer_literal(value.text)) {
        out += python_repr(to_double(value.text));
      } else {
        out += value.text == "-0" ? "0" : value.text;  // an int has no negative zero
      }
      break;
    case Value::Kind::array:
      out += '[';
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += style.item_separator;
        append_python(out, value.items[i], style);
      }
      out += ']';
      break;
  }
}

}  // namespace

void Writer::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_ += ',';
  has_items_.back() = true;
}

Writer& Writer::begin_object() {
  separate();
  out_ += '{';
  has_items_.push_back(false);
  return *this;
}

Writer& Writer::end_object() {
  out_ += '}';
  has_items_.pop_back();
  return *this;
}

Writer& Writer::begin_array() {
  separate();
  out_ += '[';
  has_items_.push_back(false);
  return *this;
}

Writer& Writer::end_array() {
  out_ += ']';
  has_items_.pop_back();
  return *this;
}

Writer& Writer::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_ += ':';
  after_key_ = true;
  return *this;
}

Writer& Writer::string(std::string_view text) {
  separate();
  append_quoted(out_, text);
  return *this;
}

Writer& Writer::boolean(bool value) { return raw(value ? "true" : "false"); }

Writer& Writer::null() { return raw("null"); }

Writer& Writer::integer(std::int64_t value) { return raw(std::to_string(value)); }

Writer& Writer::number(double value) {
  if (!std::isfinite(value)) return null();
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return raw(std::string_view(buffer, static_cast<std::size_t>(end - buffer)));
}

Writer& Writer::raw(std::string_view literal) {
  separate();
  out_ += literal;
  return *this;
}

Writer& Writer::value(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return null();
    case Value::Kind::boolean:
      return boolean(value.boolean);
    case Value::Kind::number:
      return raw(value.text);
    case Value::Kind::string:
      return string(value.text);
    case Value::Kind::array:
      begin_array();
      for (const Value& item : value.items) this->value(item);
      return end_array();
    case Value::Kind::object:
      begin_object();
      for (const Member& member : value.members) key(member.key).value(member.value);
      return end_object();
  }
  return *this;
}

std::vector<const Member*> unique_members(const Value& object) {
  std::vector<const Member*> result;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const Member& member : object.members) {
    const auto [place, added] = places.emplace(member.key, result.size());
    if (added) {
      result.push_back(&member);
    } else {
      result[place->second] = &member;
    }
  }
  return result;
}

std::string python_dumps(const Value& value, const PythonStyle& style) {
  std::string out;
  append_python(out, value, style);
  return out;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

}  // namespace k3::json
