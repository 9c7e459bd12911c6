// What headers do: where the output stands, and what is closed on the way.
#include "model/text/channel_state.hpp"

namespace k3::text {

Tag ChannelParser::State::innermost() const {
  switch (place) {
    case Place::none:
      return Tag::empty;
    case Place::think:
      return Tag::think;
    case Place::response:
      return Tag::response;
    case Place::tools:
      return Tag::tools;
    case Place::call:
      return Tag::call;
    case Place::argument:
      return Tag::argument;
  }
  return Tag::empty;
}

void ChannelParser::State::apply(const ChannelHeader& found, bool closing, Deltas& out) {
  if (closing) {
    close(found.tag == Tag::empty ? innermost() : found.tag, out);
  } else {
    open(found, out);
  }
}

void ChannelParser::State::open(const ChannelHeader& found, Deltas& out) {
  switch (found.tag) {
    case Tag::think:
      move_to(Place::think, out);
      message.has_reasoning = true;
      break;
    case Tag::response:
      move_to(Place::response, out);
      message.has_content = true;
      break;
    case Tag::tools:
      move_to(Place::tools, out);
      break;
    case Tag::call:
      open_call(found, out);
      break;
    case Tag::argument:
    case Tag::json:
      open_argument(found, out);
      break;
    case Tag::message:
    case Tag::empty:
    case Tag::unknown:
      break;  // only the tag is dropped: the text inside stays where it was
  }
}

void ChannelParser::State::open_call(const ChannelHeader& found, Deltas& out) {
  move_to(Place::tools, out);
  place = Place::call;
  const auto name = found.attribute("tool");
  if (!name || name->empty()) return;
  Utf8Stream clean;
  std::string text = clean.push(*name);
  text += clean.finish();
  const std::size_t index = calls++;
  const std::string id = text + "_" + std::to_string(first_call + index);
  out.push_back(ToolCallBegin{index, id, text});
  call.emplace(id, std::move(text));
}

void ChannelParser::State::open_argument(const ChannelHeader& found, Deltas& out) {
  close_argument(out);
  if (place != Place::call) {
    // Outside a call its value is nobody's text.
    if (place == Place::think || place == Place::response) move_to(Place::none, out);
    return;
  }
  clear_stray();
  place = Place::argument;
  if (!call) return;
  if (found.tag == Tag::json) return call->begin_json();
  const auto key = found.attribute("key");
  if (!key) return call->begin_ignored();
  Utf8Stream clean;
  std::string text = clean.push(*key);
  text += clean.finish();
  call_json(call->begin_argument(text, found.attribute("type").value_or("string")), out);
}

void ChannelParser::State::close(Tag tag, Deltas& out) {
  switch (tag) {
    case Tag::message:
      end(out);
      break;
    case Tag::think:
      if (place == Place::think) move_to(Place::none, out);
      break;
    case Tag::response:
      if (place == Place::response) move_to(Place::none, out);
      if (place == Place::none && !message.has_content) {
        // The answer's channel was closed but never opened: what was said since is the answer.
        Utf8Stream clean;
        std::string answer = clean.push(stray);
        answer += clean.finish();
        content_at.insert(content_at.end(), stray_at.begin(), stray_at.end());
        move_to(Place::response, out);
        message.has_content = true;
        text(answer, out);
        move_to(Place::none, out);
      }
      break;
    case Tag::tools:
      if (place == Place::tools || place == Place::call || place == Place::argument) move_to(Place::none, out);
      break;
    case Tag::call:
      if (place == Place::call || place == Place::argument) move_to(Place::tools, out);
      break;
    case Tag::argument:
    case Tag::json:
      close_argument(out);
      break;
    case Tag::empty:
    case Tag::unknown:
      break;
  }
}

// Leaves what is open, innermost first.
void ChannelParser::State::move_to(Place next, Deltas& out) {
  clear_stray();
  if (next == place) return;
  close_argument(out);
  complete_call(out);
  if (place == Place::think || place == Place::response) text(utf8.finish(), out);
  place = next;
}

void ChannelParser::State::close_argument(Deltas& out) {
  if (place != Place::argument) return;
  place = Place::call;
  clear_stray();
  if (call) call_json(call->end_argument(), out);
}

void ChannelParser::State::complete_call(Deltas& out) {
  if (place != Place::call) return;
  place = Place::tools;
  if (!call) return;
  call_json(call->end_call(), out);
  out.push_back(ToolCallEnd{call_index()});
  message.tool_calls.push_back(call->call());
  call.reset();
}

void ChannelParser::State::end(Deltas& out) {
  move_to(Place::none, out);
  ended = true;
}

}  // namespace k3::text
