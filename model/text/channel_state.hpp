// The parser's state. Ids become headers and text in channel_parser.cpp; headers move the place in channel_structure.cpp.
#pragma once

#include <map>

#include "model/text/channel_call.hpp"
#include "model/text/channel_header.hpp"
#include "model/text/channel_parser.hpp"

namespace k3::text {

// Where the output stands. Text counts in think, response and argument only.
enum class Place { none, think, response, tools, call, argument };

// An id of the output and the how manieth it was.
struct Piece {
  TokenId id;
  std::size_t at;
};

struct PendingHeader {
  bool closing = false;
  bool simple = false;  // the first id spells a tag that takes no attributes here
  std::vector<Piece> ids;
  std::string text;
  bool overflown = false;
};

struct ChannelParser::State {
  using Deltas = std::vector<Delta>;

  State(const Tokenizer& tokens, bool thinking, std::size_t first);

  const Tokenizer* tokenizer;
  std::map<TokenId, Tag> tag_ids;  // the tags that are one token; in practice all
  std::size_t first_call;

  Place place;
  bool ended = false;
  bool finished = false;
  std::optional<PendingHeader> header;
  std::optional<Piece> held;  // an id that spells a tag: if <|sep|> follows it was a closer without its <|close|>
  Utf8Stream utf8;            // of think and response
  std::string stray;
  std::vector<std::size_t> stray_at;    // the ids whose text `stray` is
  std::vector<std::size_t> content_at;  // those whose text became the answer's by the last push or finish
  std::size_t pushed = 0;
  std::optional<CallWriter> call;  // absent while a call without a name is swallowed
  std::size_t calls = 0;
  ParsedMessage message;

  void push(TokenId id, Deltas& out);
  void finish(Deltas& out);

 private:
  std::size_t call_index() const { return calls - 1; }
  Tag tag_of(TokenId id) const {
    const auto found = tag_ids.find(id);
    return found == tag_ids.end() ? Tag::unknown : found->second;
  }

  void body(Piece piece, Deltas& out);
  void emit(Piece piece, Deltas& out);
  void release_held(Deltas& out);
  void text(std::string_view text, Deltas& out);
  void call_json(std::string json, Deltas& out);

  void begin_header(bool closing, Deltas& out);
  void header_id(Piece piece, Deltas& out);
  void clear_stray();
  void end_header(Deltas& out);
  void abandon_header(Deltas& out);
  void stray_separator(Deltas& out);

  void apply(const ChannelHeader& found, bool closing, Deltas& out);
  void open(const ChannelHeader& found, Deltas& out);
  void open_call(const ChannelHeader& found, Deltas& out);
  void open_argument(const ChannelHeader& found, Deltas& out);
  void close(Tag tag, Deltas& out);
  Tag innermost() const;

  void move_to(Place next, Deltas& out);
  void close_argument(Deltas& out);
  void complete_call(Deltas& out);
  void end(Deltas& out);
};

}  // namespace k3::text
