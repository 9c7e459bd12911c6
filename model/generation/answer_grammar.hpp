// From a chat request to the grammar of its answer, in K3's own markers: an answer in JSON where the request asks for one, calls where
// it demands or forbids them, and in a strict tool's call only the arguments that were declared. What is thought stays free.
#pragma once

#include <memory>

#include "model/grammar/grammar.hpp"
#include "model/text/chat_format.hpp"

namespace k3::generation {

// Whether anything is asked for that a free answer might not be.
bool demands_form(const text::ChatRequest& request);

// Null: the request leaves its answer free. Errors: a schema with a keyword that cannot be kept exactly, or one that is too large; the
// message has the place in the schema as a JSON pointer.
boost::system::result<std::shared_ptr<const grammar::Grammar>, text::RequestError> answer_grammar(const text::ChatRequest& request,
                                                                                                const text::ControlTokens& control);

}  // namespace k3::generation
