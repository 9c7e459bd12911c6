// Number literals: the grammar, and the text that Python prints for one.
#pragma once

#include <string>
#include <string_view>

namespace k3::json {

// RFC 8259: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
bool is_number_literal(std::string_view text);
// Neither fraction nor exponent: what Python reads as an int.
bool is_integer_literal(std::string_view literal);
// Correctly rounded; beyond the range an infinity or zero of the right sign.
double to_double(std::string_view literal);
// repr(float) of Python: shortest digits that round trip, positional for 1e-4 <= |x| < 1e16.
std::string python_repr(double value);

}  // namespace k3::json
