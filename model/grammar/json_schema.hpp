// JSON schema to expressions: every text they match is a JSON document on one line that is valid against the schema.
#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/grammar/expression.hpp"
#include "model/text/json.hpp"

namespace k3::grammar {

// `path` is a JSON pointer into the schema ("" is all of it); `message` names the keyword and says what is supported.
struct SchemaError {
  std::string message;
  std::string path;
};

[[noreturn]] inline void throw_exception_from_error(const SchemaError& error, const boost::source_location&) {
  throw std::runtime_error(error.path + ": " + error.message);
}

template <class T>
using SchemaResult = boost::system::result<T, SchemaError>;

struct SchemaLimits {
  std::size_t nodes = 50'000;           // schemas within the schema, a $ref counted once
  std::size_t depth = 200;              // of schemas within schemas
  std::size_t properties = 20'000;      // of one object
  std::size_t literal_bytes = 4 << 20;  // of all property names, enum and const values
  std::size_t states = 32'000;          // of all patterns, formats and excluded names
  std::size_t pattern_size = 20'000;    // of one pattern after its counts are written out
};

// Adds its rules to `rules` and returns what matches the document. A keyword that cannot be kept exactly is refused, never ignored;
// so is a schema that no document satisfies. Documents are a subset of the valid ones: no white space but a space after a comma or
// colon, keys in declared order, one spelling a string (README.md lists what is left out).
SchemaResult<Expression> from_json_schema(const json::Value& schema, Rules& rules, const SchemaLimits& limits = {});

// One parameter of a function as a call in K3's format carries it: beside the name of its JSON type, a string as it is, the rest as
// JSON.
struct Argument {
  std::string key;
  bool required = false;
  std::vector<std::pair<std::string_view, Expression>> values;  // for each type that it may be of, its name and those values
};
// Of the schema of a function's parameters: the declared ones, in their order, and what must be there; others are not written.
SchemaResult<std::vector<Argument>> arguments_from_json_schema(const json::Value& parameters, Rules& rules,
                                                               const SchemaLimits& limits = {});

// Any JSON, as deep as Limits::depth permits; the rules are added anew by each call.
Expression any_json_value(Rules& rules);
Expression any_json_object(Rules& rules);

}  // namespace k3::grammar
