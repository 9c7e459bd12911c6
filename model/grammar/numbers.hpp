// Numbers within bounds, digit by digit. What is written is compared exactly, and so short that a reader who keeps numbers as
// doubles compares alike.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/grammar/expression.hpp"

namespace k3::grammar {

// A JSON literal as digits: value = digits / 10^places, with a sign. Trailing zeros of the fraction are dropped.
struct Decimal {
  bool negative = false;
  std::string digits;  // no leading zeros; empty for zero
  std::uint32_t places = 0;
};
// Nothing if it has more than 400 digits when written out.
std::optional<Decimal> decimal(std::string_view literal);

struct Bound {
  Decimal value;
  bool exclusive = false;
};

// A whole number of at most 18 digits. Error: there is none within the bounds.
boost::system::result<Expression, std::string> integer_within(const std::optional<Bound>& least, const std::optional<Bound>& most);

// With bounds: no exponent, at most 15 digits. Without: at most 15 digits before and after the point and an exponent of one or two.
// Errors: none within the bounds, or bounds that need more digits.
boost::system::result<Expression, std::string> number_within(const std::optional<Bound>& least, const std::optional<Bound>& most);

}  // namespace k3::grammar
