#include "model/text/json_number.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "model/text/json.hpp"

namespace k3::json {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// value = ±0.d1d2d3… × 10^exponent, digits without leading or trailing zeros; no digits: zero.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
};

Decimal split(std::string_view literal) {
  Decimal result;
  std::size_t at = 0;
  if (!literal.empty() && literal[0] == '-') {
    result.negative = true;
    ++at;
  }
  const std::size_t mark = std::min(literal.find_first_of("eE"), literal.size());
  std::int64_t integer_digits = 0;
  bool fraction = false;
  for (; at < mark; ++at) {
    if (literal[at] == '.') {
      fraction = true;
      continue;
    }
    result.digits += literal[at];
    integer_digits += fraction ? 0 : 1;
  }
  // Exponents beyond a million are out of every range; keeping them small keeps the sums below from overflowing.
  constexpr std::int64_t far = 1'000'000;
  std::int64_t exponent = 0;
  if (mark < literal.size()) {
    std::size_t digit = mark + 1;
    const bool negative = literal[digit] == '-';
    if (literal[digit] == '-' || literal[digit] == '+') ++digit;
    for (; digit < literal.size(); ++digit) exponent = std::min(far, exponent * 10 + (literal[digit] - '0'));
    if (negative) exponent = -exponent;
  }
  const std::size_t first = std::min(result.digits.find_first_not_of('0'), result.digits.size());
  result.digits.erase(0, first);
  result.exponent = integer_digits - static_cast<std::int64_t>(first) + exponent;
  result.digits.erase(result.digits.find_last_not_of('0') + 1);
  return result;
}

Error wrong_kind(std::string_view wanted, const Value& value) {
  static constexpr std::string_view names[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
  Error error = fail(ErrorCode::invalid_argument, "wrong type");
  error.expected = wanted;
  error.got = value.is_number() ? value.text : std::string(names[static_cast<std::size_t>(value.kind)]);
  return error;
}

}  // namespace

bool is_number_literal(std::string_view text) {
  std::size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
  if (at >= text.size() || !is_digit(text[at])) return false;
  at = text[at] == '0' ? at + 1 : skip_digits(text, at);
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = skip_digits(text, at + 1);
    if (end == at + 1) return false;
    at = end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t end = skip_digits(text, at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

bool is_integer_literal(std::string_view literal) { return literal.find_first_of(".eE") == std::string_view::npos; }

double to_double(std::string_view literal) {
  double value = 0;
  const auto [end, code] = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (code != std::errc::result_out_of_range) return value;
  // from_chars does not say which end of the range was left.
  const Decimal decimal = split(literal);
  const double magnitude = decimal.exponent > 0 ? std::numeric_limits<double>::infinity() : 0.0;
  return decimal.negative ? -magnitude : magnitude;
}

std::string python_repr(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char buffer[40];
  const auto shortest = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(shortest.ptr - buffer));
  std::string result;
  if (text.starts_with('-')) {
    result = "-";
    text.remove_prefix(1);
  }
  const std::size_t mark = text.find('e');
  std::string digits(text.substr(0, 1));
  if (mark > 2) digits += text.substr(2, mark - 2);
  int exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    result += digits[0];
    if (digits.size() > 1) result += "." + digits.substr(1);
    const std::string magnitude = std::to_string(std::abs(exponent));
    return result + (exponent < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0) return result + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto integer_digits = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= integer_digits) return result + digits + std::string(integer_digits - digits.size(), '0') + ".0";
  return result + digits.substr(0, integer_digits) + "." + digits.substr(integer_digits);
}

Result<double> Value::as_double() const {
  if (!is_number()) return wrong_kind("a number", *this);
  return to_double(text);
}

Result<std::int64_t> Value::as_int() const {
  if (!is_number()) return wrong_kind("an integer", *this);
  Decimal decimal = split(text);
  if (decimal.digits.empty()) return std::int64_t{0};
  const auto length = static_cast<std::int64_t>(decimal.digits.size());
  // int64 has at most 19 digits; a digit behind the point is no integer.
  if (decimal.exponent < length || decimal.exponent > 19) return wrong_kind("an integer of 64 bits", *this);
  std::string integer = (decimal.negative ? "-" : "") + decimal.digits;
  integer.append(static_cast<std::size_t>(decimal.exponent - length), '0');
  std::int64_t result = 0;
  if (std::from_chars(integer.data(), integer.data() + integer.size(), result).ec != std::errc()) {
    return wrong_kind("an integer of 64 bits", *this);
  }
  return result;
}

const Value* Value::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    if (member->key == key) return &member->value;
  }
  return nullptr;
}

}  // namespace k3::json
