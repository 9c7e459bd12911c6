#include "server/answer_blocks.hpp"

namespace k3::server {

void AnswerBlocks::begin(Block block) {
  close();
  open_ = true;
  blocks_.push_back(std::move(block));
  listener_.begun(blocks_.size() - 1, blocks_.back());
}

void AnswerBlocks::grow(BlockKind kind, std::string_view text) {
  if (text.empty()) return;
  if (!open_ || blocks_.back().kind != kind) begin({.kind = kind});
  blocks_.back().text += text;
  listener_.grown(blocks_.size() - 1, blocks_.back(), text);
}

void AnswerBlocks::take(const text::Delta& delta) {
  if (const auto* thought = std::get_if<text::ReasoningDelta>(&delta)) {
    grow(BlockKind::thinking, thought->text);
  } else if (const auto* content = std::get_if<text::ContentDelta>(&delta)) {
    grow(BlockKind::text, content->text);
  } else if (const auto* call = std::get_if<text::ToolCallBegin>(&delta)) {
    begin({.kind = BlockKind::call, .id = call->id, .name = call->name, .complete = false});
  } else if (const auto* arguments = std::get_if<text::ToolCallArguments>(&delta)) {
    grow(BlockKind::call, arguments->json);
  } else if (open_) {
    blocks_.back().complete = true;
    close();
  }
}

void AnswerBlocks::close() {
  if (!open_) return;
  open_ = false;
  listener_.ended(blocks_.size() - 1, blocks_.back());
}

std::vector<Block> blocks_of(const text::ParsedMessage& message) {
  std::vector<Block> blocks;
  if (!message.reasoning.empty()) blocks.push_back({.kind = BlockKind::thinking, .text = message.reasoning});
  if (!message.content.empty()) blocks.push_back({.kind = BlockKind::text, .text = message.content});
  for (const auto& call : message.tool_calls)
    blocks.push_back({.kind = BlockKind::call, .text = call.arguments, .id = call.id, .name = call.name});
  return blocks;
}

}  // namespace k3::server
