// Reading whole inputs for the commands that are filters.
#pragma once

#include <string>

#include "model/error.hpp"
#include "model/text/json.hpp"
#include "model/text/tokenizer.hpp"

namespace k3::cli {

// All of standard input, or of a file ("-" is standard input).
Result<std::string> read_all(const std::string& path);
Result<text::Tokenizer> load_tokenizer(const std::string& model);
// Writes and flushes; a full disk or a closed pipe is an error, not silence.
Result<void> write_out(const std::string& text);
// A JSON array of token ids.
Result<std::vector<text::TokenId>> ids_of(const json::Value& value);
void write_ids(json::Writer& writer, const std::vector<text::TokenId>& ids);

}  // namespace k3::cli
