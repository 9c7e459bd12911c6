// JSON Schema without any grammar, for tests of documents that grammars made.
#pragma once

#include "model/text/json.hpp"

namespace k3::grammar::test {

// Plainly, from the keywords' definitions. Formats are not looked at, and a pattern that std::regex cannot read counts as found.
bool valid(const json::Value& document, const json::Value& schema, const json::Value& root);

}  // namespace k3::grammar::test
