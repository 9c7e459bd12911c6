#include "model/grammar/numbers.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace k3::grammar {
namespace {

using E = Expression;
template <class T>
using Made = boost::system::result<T, std::string>;

constexpr std::int64_t largest_integer = 999'999'999'999'999'999;
constexpr std::uint32_t double_digits = 15;

E digit(char first, char last) {
  return E::byte_class(byte_range(static_cast<unsigned char>(first), static_cast<unsigned char>(last)));
}
E digits(std::size_t min, std::size_t max) {
  return E::repeat(digit('0', '9'), static_cast<std::uint32_t>(min), static_cast<std::uint32_t>(max));
}

bool all(std::string_view text, char c) { return text.find_first_not_of(c) == std::string_view::npos; }

// Texts of `low`'s length from low to high, as numbers.
E between(std::string_view low, std::string_view high) {
  if (low.empty()) return {};
  if (all(low, '0') && all(high, '9')) return digits(low.size(), low.size());
  const std::string_view low_rest = low.substr(1), high_rest = high.substr(1);
  if (low[0] == high[0]) return E::sequence({E::bytes(low.substr(0, 1)), between(low_rest, high_rest)});
  const std::string nines(low_rest.size(), '9'), zeros(low_rest.size(), '0');
  std::vector<E> options{E::sequence({E::bytes(low.substr(0, 1)), between(low_rest, nines)})};
  if (low[0] + 1 < high[0]) {
    options.push_back(E::sequence(
        {digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), digits(low_rest.size(), low_rest.size())}));
  }
  options.push_back(E::sequence({E::bytes(high.substr(0, 1)), between(zeros, high_rest)}));
  return E::choice(std::move(options));
}

// Whole numbers from low to high, 0 <= low <= high, without leading zeros.
E whole(std::int64_t low, std::int64_t high) {
  const std::string first = std::to_string(low), last = std::to_string(high);
  std::vector<E> options;
  std::size_t free_from = 0, free_to = 0;  // lengths of which every number is one
  for (std::size_t size = first.size(); size <= last.size(); ++size) {
    std::string from = size == first.size() ? first : "1" + std::string(size - 1, '0');
    const std::string to = size == last.size() ? last : std::string(size, '9');
    if (from == "0") {
      options.push_back(E::bytes("0"));
      if (to == "0") continue;
      from = "1";
    }
    if (from[0] == '1' && all(std::string_view(from).substr(1), '0') && all(to, '9')) {
      if (free_from == 0) free_from = size;
      free_to = size;
    } else {
      options.push_back(between(from, to));
    }
  }
  if (free_from > 0) options.push_back(E::sequence({digit('1', '9'), digits(free_from - 1, free_to - 1)}));
  return E::choice(std::move(options));
}

// Digits after a point, low.size() of them at most, that make a fraction from low to high; what is not written counts as zeros.
E fraction(std::string_view low, std::string_view high, bool may_be_empty) {
  std::vector<E> options;
  if (may_be_empty && all(low, '0')) options.emplace_back();
  if (!low.empty()) {
    const std::string_view low_rest = low.substr(1), high_rest = high.substr(1);
    const std::string nines(low_rest.size(), '9'), zeros(low_rest.size(), '0');
    const auto starting = [&](char c, std::string_view from, std::string_view to) {
      const bool free = all(from, '0') && all(to, '9');
      options.push_back(E::sequence({digit(c, c), free ? digits(0, from.size()) : fraction(from, to, true)}));
    };
    if (low[0] == high[0]) {
      starting(low[0], low_rest, high_rest);
    } else {
      starting(low[0], low_rest, nines);
      if (low[0] + 1 < high[0]) {
        options.push_back(
            E::sequence({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), digits(0, low_rest.size())}));
      }
      starting(high[0], zeros, high_rest);
    }
  }
  return E::choice(std::move(options));
}

std::int64_t power_of_ten(std::uint32_t exponent) {
  std::int64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

std::string padded(std::int64_t value, std::uint32_t width) {
  const std::string text = std::to_string(value);
  return std::string(width - std::min<std::size_t>(width, text.size()), '0') + text;
}

// low / 10^places to high / 10^places, 0 <= low <= high.
E positive(std::int64_t low, std::int64_t high, std::uint32_t places) {
  const std::int64_t one = power_of_ten(places);
  const std::int64_t first = low / one, last = high / one;
  const std::string from = padded(low % one, places), to = padded(high % one, places);
  const std::string zeros(places, '0'), nines(places, '9');
  std::vector<E> options;
  const auto with = [&](std::int64_t whole_part, const std::string& least, const std::string& most) {
    std::vector<E> rest;
    if (all(least, '0')) rest.emplace_back();
    rest.push_back(E::sequence({E::bytes("."), fraction(least, most, false)}));
    options.push_back(E::sequence({E::bytes(std::to_string(whole_part)), E::choice(std::move(rest))}));
  };
  if (first == last) {
    with(first, from, to);
  } else {
    with(first, from, nines);
    if (first + 1 < last) {
      options.push_back(E::sequence({whole(first + 1, last - 1), E::optional(E::sequence({E::bytes("."), digits(1, places)}))}));
    }
    with(last, zeros, to);
  }
  return E::choice(std::move(options));
}

template <class Positive>
E signed_range(std::int64_t low, std::int64_t high, const Positive& make) {
  std::vector<E> options;
  if (high >= 0) options.push_back(make(std::max<std::int64_t>(low, 0), high));
  if (low < 0) options.push_back(E::sequence({E::bytes("-"), make(std::max<std::int64_t>(-high, 1), -low)}));
  return E::choice(std::move(options));
}

// value * 10^places, rounded down or up; `limit` where it is beyond that.
std::int64_t scaled(const Decimal& value, std::uint32_t places, bool up, std::int64_t limit, bool& exact) {
  std::string digits = value.digits;
  exact = true;
  if (value.places > places) {
    const std::size_t dropped = value.places - places;
    const std::string rest = digits.size() > dropped ? digits.substr(digits.size() - dropped) : digits;
    exact = all(rest, '0');
    digits.resize(digits.size() - rest.size());
  } else {
    digits.append(places - value.places, '0');
  }
  std::int64_t magnitude = limit;
  if (digits.size() <= 18) {
    magnitude = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
    magnitude = std::min(magnitude, limit);
  }
  if (!exact && up != value.negative && magnitude < limit) ++magnitude;
  return value.negative ? -magnitude : magnitude;
}

// An exclusive bound moves by one; where doubles are coarser than whole numbers by so much that they differ.
std::int64_t moved(std::int64_t value, bool exact, bool exclusive, std::int64_t direction) {
  if (!exclusive || !exact) return value;
  constexpr std::int64_t all_exact = std::int64_t{1} << 53;
  const bool coarse = value >= all_exact || value <= -all_exact;
  return value + direction * (coarse ? 1024 : 1);
}

}  // namespace

std::optional<Decimal> decimal(std::string_view literal) {
  Decimal out;
  if (literal.starts_with('-')) {
    out.negative = true;
    literal.remove_prefix(1);
  }
  const auto e = literal.find_first_of("eE");
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view text = literal.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (read.ec != std::errc() || exponent > 400 || exponent < -400) return std::nullopt;
  }
  const std::string_view mantissa = literal.substr(0, e);
  const auto point = mantissa.find('.');
  out.digits = mantissa.substr(0, point);
  std::int64_t places = -exponent;
  if (point != std::string_view::npos) {
    out.digits += mantissa.substr(point + 1);
    places += static_cast<std::int64_t>(mantissa.size() - point - 1);
  }
  for (; places < 0; ++places) out.digits += '0';
  for (; places > 0 && out.digits.ends_with('0'); --places) out.digits.pop_back();
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  if (out.digits.empty()) places = 0;
  out.places = static_cast<std::uint32_t>(places);
  if (out.digits.empty()) out.negative = false;
  if (out.digits.size() > 400) return std::nullopt;
  return out;
}

Made<Expression> integer_within(const std::optional<Bound>& least, const std::optional<Bound>& most) {
  std::int64_t low = -largest_integer, high = largest_integer;
  bool exact = true;
  if (least) {
    low = scaled(least->value, 0, true, largest_integer + 1, exact);
    low = std::max(moved(low, exact, least->exclusive, 1), -largest_integer);
  }
  if (most) {
    high = scaled(most->value, 0, false, largest_integer + 1, exact);
    high = std::min(moved(high, exact, most->exclusive, -1), largest_integer);
  }
  if (low > high) return std::string("no whole number of at most 18 digits lies within the bounds");
  return signed_range(low, high, whole);
}

Made<Expression> number_within(const std::optional<Bound>& least, const std::optional<Bound>& most) {
  if (!least && !most) {
    const E whole_part = E::choice({E::bytes("0"), E::sequence({digit('1', '9'), digits(0, double_digits - 1)})});
    const E exponent = E::sequence(
        {E::byte_class(ByteSet().set('e').set('E')), E::optional(E::byte_class(ByteSet().set('+').set('-'))), digits(1, 2)});
    return E::sequence({E::optional(E::bytes("-")), whole_part, E::optional(E::sequence({E::bytes("."), digits(1, double_digits)})),
                        E::optional(exponent)});
  }
  std::size_t before = least && most ? 1 : 9;
  std::uint32_t behind = 1;
  for (const auto& bound : {least, most}) {
    if (!bound) continue;
    before = std::max(before, bound->value.digits.size() - std::min<std::size_t>(bound->value.places, bound->value.digits.size()));
    behind = std::max(behind, bound->value.places);
  }
  if (before + behind > double_digits) {
    return std::string("bounds that need more than 15 digits are not supported; use integer, or shorter bounds");
  }
  const auto places = static_cast<std::uint32_t>(double_digits - before);
  const std::int64_t limit = power_of_ten(double_digits) - 1;
  std::int64_t low = -limit, high = limit;
  bool exact = true;
  if (least) low = moved(scaled(least->value, places, true, limit, exact), exact, least->exclusive, 1);
  if (most) high = moved(scaled(most->value, places, false, limit, exact), exact, most->exclusive, -1);
  if (low > high) return "no number of " + std::to_string(places) + " decimals lies within the bounds";
  return signed_range(low, high, [places](std::int64_t a, std::int64_t b) { return positive(a, b, places); });
}

}  // namespace k3::grammar
