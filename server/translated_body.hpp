// The body of another protocol as that of a chat completion. What it says is checked where it is read; what a chat completion would
// refuse all the same is told with the names and places of the request as it came.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/body_answer.hpp"

namespace k3::server {

struct TranslatedBody {
  json::Value body;                              // an object
  std::vector<std::string> messages{}, tools{};  // where each of the body's was in the request
  std::vector<std::string> ignored{}, warnings{};
  bool omit_thinking = false;  // the client does not want to see what was thought
};
using Translation = boost::system::result<TranslatedBody, ApiError>;

// What a field of a chat completion is called elsewhere.
using FieldName = std::pair<std::string_view, std::string_view>;

// The error of a chat completion that `from` was translated to.
ApiError relocated(ApiError error, const TranslatedBody& from, std::span<const FieldName> names);
// The answer, planned; its shape is `shape`.
Prepared translated_answer(TranslatedBody from, std::span<const FieldName> names, ShapeMaker shape, const BodyContext& context);

// --- for those who translate ---

json::Value text_value(std::string text);
json::Value number_value(std::int64_t number);
json::Value bool_value(bool value);
json::Value object_value();
json::Value array_value();
void put(json::Value& object, std::string_view key, json::Value value);
// {"type":"text","text":...}, a part of a message's content.
json::Value text_part(std::string text);
// {"role":...,"content":...}
json::Value message_value(std::string_view role, json::Value content);
// {"type":"json_schema","json_schema":{...}}
json::Value schema_format(std::string name, json::Value schema);

// Before thinking that is sent where a client keeps it without showing it, such as a signature. It is in clear; what others have
// put there is not read.
constexpr std::string_view kOwnThinking = "k3:";

// Moves what a chat completion has under the same name, this server's own fields among them, from `body` into `out`. The names of
// the others that are not in `read` become `out.ignored`.
void take_common(json::Value& body, std::span<const std::string_view> read, TranslatedBody& out);

// "messages[3]"
std::string at(std::string_view name, std::size_t index);
// Whether a content part is a picture, in whichever protocol's words.
bool is_image(std::string_view type);
constexpr std::string_view kTextOnly = "unsupported content type: this server reads text only, no images";

}  // namespace k3::server
