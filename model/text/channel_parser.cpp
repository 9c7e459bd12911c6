#include "model/text/channel_parser.hpp"

#include <algorithm>

#include "model/text/channel_state.hpp"

namespace k3::text {
namespace {

// A header that never ends must not grow without bound; longer than this it counts as malformed.
constexpr std::size_t max_header_bytes = 65536;
// After a tag that takes no attributes, so many more ids may come before <|sep|>; then it is taken to have been forgotten.
constexpr std::size_t max_header_patience = 32;
// Text outside every channel is only kept to recognise a header whose opener is missing, or an answer whose channel was not opened.
constexpr std::size_t max_stray_bytes = 1 << 20;

}  // namespace

ChannelParser::State::State(const Tokenizer& tokens, bool thinking, std::size_t first) : tokenizer(&tokens), first_call(first) {
  for (const Tag tag : {Tag::message, Tag::think, Tag::response, Tag::tools, Tag::call, Tag::argument, Tag::json}) {
    const auto ids = tokens.encode(tag_name(tag), false);
    if (ids.has_value() && ids->size() == 1) tag_ids.emplace(ids->front(), tag);
  }
  place = thinking ? Place::think : Place::response;
  (thinking ? message.has_reasoning : message.has_content) = true;
}

void ChannelParser::State::push(TokenId id, Deltas& out) {
  const Piece piece{id, pushed++};
  if (ended || finished) return;
  const ControlTokens& control = tokenizer->control();
  if (id == control.end_of_message || id == control.end_of_sequence) {
    abandon_header(out);
    release_held(out);
    if (place == Place::argument) call.reset();  // stopped inside a value: cut short, not finished
    end(out);
  } else if (id == control.open || id == control.close) {
    begin_header(id == control.close, out);
  } else if (id == control.separator) {
    header ? end_header(out) : stray_separator(out);
  } else if (tokenizer->is_reserved(id)) {
    return;  // no other control token has a meaning in an answer, and its name is not text
  } else if (header) {
    header_id(piece, out);
  } else {
    body(piece, out);
  }
}

void ChannelParser::State::finish(Deltas& out) {
  if (ended || finished) return;
  abandon_header(out);
  release_held(out);
  // Cut off inside a code point: the piece of it is dropped, not shown as U+FFFD, since clients send this text back as history.
  utf8.finish();
  finished = true;
}

void ChannelParser::State::body(Piece piece, Deltas& out) {
  release_held(out);
  const bool in_text = place == Place::think || place == Place::response || place == Place::argument;
  if (in_text && tag_of(piece.id) != Tag::unknown) {
    held = piece;
  } else {
    emit(piece, out);
  }
}

void ChannelParser::State::emit(Piece piece, Deltas& out) {
  const std::string_view bytes = tokenizer->bytes(piece.id);
  if (place == Place::response) content_at.push_back(piece.at);
  if (place == Place::think || place == Place::response) {
    text(utf8.push(bytes), out);
  } else if (place == Place::argument) {
    if (call) call_json(call->text(bytes), out);
  } else if (stray.size() < max_stray_bytes) {
    stray += bytes;
    stray_at.push_back(piece.at);
  }
}

void ChannelParser::State::release_held(Deltas& out) {
  if (!held) return;
  const Piece piece = *held;
  held.reset();
  emit(piece, out);
}

void ChannelParser::State::clear_stray() {
  stray.clear();
  stray_at.clear();
}

void ChannelParser::State::text(std::string_view text, Deltas& out) {
  if (text.empty()) return;
  if (place == Place::think) {
    message.reasoning += text;
    out.push_back(ReasoningDelta{std::string(text)});
  } else {
    message.content += text;
    out.push_back(ContentDelta{std::string(text)});
  }
}

void ChannelParser::State::call_json(std::string json, Deltas& out) {
  if (!json.empty()) out.push_back(ToolCallArguments{call_index(), std::move(json)});
}

void ChannelParser::State::begin_header(bool closing, Deltas& out) {
  abandon_header(out);
  release_held(out);
  header.emplace();
  header->closing = closing;
}

void ChannelParser::State::header_id(Piece piece, Deltas& out) {
  PendingHeader& pending = *header;
  if (pending.ids.empty()) {
    const Tag tag = tag_of(piece.id);
    pending.simple = tag != Tag::unknown && (pending.closing || tag == Tag::think || tag == Tag::response || tag == Tag::tools);
  } else if (pending.simple && pending.ids.size() == 1 && piece.id == pending.ids.front().id) {
    return;  // the tag twice
  }
  if (pending.text.size() < max_header_bytes) {
    pending.ids.push_back(piece);
    pending.text += tokenizer->bytes(piece.id);
  } else {
    pending.overflown = true;
  }
  if (pending.simple && pending.ids.size() > max_header_patience) abandon_header(out);
}

void ChannelParser::State::end_header(Deltas& out) {
  const PendingHeader pending = std::move(*header);
  header.reset();
  ChannelHeader found = parse_channel_header(pending.text);
  if (pending.overflown) found.well_formed = false;
  apply(found, pending.closing, out);
}

// The header was not finished by <|sep|>. If it began with a whole tag, that is taken, and what follows is text.
void ChannelParser::State::abandon_header(Deltas& out) {
  if (!header) return;
  const PendingHeader pending = std::move(*header);
  header.reset();
  if (!pending.simple) {
    // Of the tags with attributes only `call` can be taken half-read: the rest of its header would not be text.
    const ChannelHeader found = parse_channel_header(pending.text);
    if (found.tag == Tag::call && found.well_formed && !found.attributes.empty()) apply(found, pending.closing, out);
    return;
  }
  ChannelHeader found;
  found.tag = tag_of(pending.ids.front().id);
  found.well_formed = true;
  apply(found, pending.closing, out);
  for (std::size_t i = 1; i < pending.ids.size() && !ended; ++i) body(pending.ids[i], out);
}

// <|sep|> without a header: its <|open|> or <|close|> is missing.
void ChannelParser::State::stray_separator(Deltas& out) {
  ChannelHeader found;
  if (held) {
    found.tag = tag_of(held->id);
    found.well_formed = true;
    held.reset();
  } else {
    found = parse_channel_header(stray);
    clear_stray();
  }
  if (found.tag == Tag::empty || found.tag == Tag::unknown) return;
  const bool bare = found.well_formed && found.attributes.empty();
  apply(found, bare && (found.tag == innermost() || found.tag == Tag::message), out);
}

ChannelParser::ChannelParser(const Tokenizer& tokenizer, bool thinking, std::size_t first_call_index)
    : state_(std::make_unique<State>(tokenizer, thinking, first_call_index)) {}
ChannelParser::ChannelParser(const ChannelParser& other) : state_(std::make_unique<State>(*other.state_)) {}
ChannelParser& ChannelParser::operator=(const ChannelParser& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}
ChannelParser::ChannelParser(ChannelParser&&) noexcept = default;
ChannelParser& ChannelParser::operator=(ChannelParser&&) noexcept = default;
ChannelParser::~ChannelParser() = default;

std::vector<Delta> ChannelParser::push(TokenId id) {
  std::vector<Delta> out;
  state_->content_at.clear();
  state_->push(id, out);
  return out;
}

std::vector<Delta> ChannelParser::finish() {
  std::vector<Delta> out;
  state_->content_at.clear();
  state_->finish(out);
  return out;
}

bool ChannelParser::ended() const { return state_->ended; }
bool ChannelParser::in_reasoning() const { return state_->place == Place::think; }
bool ChannelParser::in_response() const { return state_->place == Place::response; }
bool ChannelParser::in_header() const { return state_->header.has_value(); }
const ParsedMessage& ChannelParser::message() const { return state_->message; }
std::span<const std::size_t> ChannelParser::content_ids() const { return state_->content_at; }

std::size_t ChannelParser::first_undecided() const {
  std::size_t first = state_->pushed;
  if (state_->held) first = std::min(first, state_->held->at);
  if (state_->header && !state_->header->ids.empty()) first = std::min(first, state_->header->ids.front().at);
  if (!state_->stray_at.empty()) first = std::min(first, state_->stray_at.front());
  return first;
}

}  // namespace k3::text
