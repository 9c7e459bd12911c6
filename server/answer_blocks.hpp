// An answer as blocks that begin, grow and end one after another, which is how Messages and Responses tell it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/text/channel_parser.hpp"

namespace k3::server {

enum class BlockKind : std::uint8_t { thinking, text, call };

struct Block {
  BlockKind kind = BlockKind::text;
  std::string text{};        // what was thought or said; of a call its arguments, which are JSON
  std::string id{}, name{};  // of a call
  bool complete = true;      // false: a call that was cut short
};

// Hears of each block. Indexes count from 0.
class BlockListener {
 public:
  virtual void begun(std::size_t index, const Block& block) = 0;
  virtual void grown(std::size_t index, const Block& block, std::string_view more) = 0;
  virtual void ended(std::size_t index, const Block& block) = 0;

 protected:
  ~BlockListener() = default;
};

class AnswerBlocks {
 public:
  // `listener` outlives this.
  explicit AnswerBlocks(BlockListener& listener) : listener_(listener) {}

  void take(const text::Delta& delta);
  void close();  // the answer is over
  const std::vector<Block>& all() const { return blocks_; }
  const Block* open() const { return open_ ? &blocks_.back() : nullptr; }  // the last one, while it grows

 private:
  void grow(BlockKind kind, std::string_view text);
  void begin(Block block);

  BlockListener& listener_;
  std::vector<Block> blocks_;
  bool open_ = false;  // the last one
};

// Those of a whole answer: what was thought, what was said, and the calls.
std::vector<Block> blocks_of(const text::ParsedMessage& message);

}  // namespace k3::server
