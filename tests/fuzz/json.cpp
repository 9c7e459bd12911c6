// Any bytes: refused, or read, written and read again as the same.
#include "model/text/json.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

using namespace k3;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = json::parse(text);
  if (!value) return 0;
  std::string once;
  json::Writer(once).value(*value);
  const auto again = json::parse(once);
  if (!again) std::abort();
  std::string twice;
  json::Writer(twice).value(*again);
  if (once != twice) std::abort();
  if (json::python_dumps(*value, {}) != json::python_dumps(*again, {})) std::abort();
  if (value->is_number()) {
    const auto integer = value->as_int();
    if (integer && static_cast<double>(*integer) != *value->as_double()) std::abort();
  }
  return 0;
}
