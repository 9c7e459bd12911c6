#include "model/text/bpe.hpp"

#include <algorithm>
#include <functional>

#include "model/text/split.hpp"

namespace k3::text {

namespace {

// Below this many bytes the plain scan, though quadratic, beats heap and links.
constexpr std::size_t kShortPiece = 96;

}  // namespace

std::uint32_t PieceEncoder::joined_rank(std::string_view piece, std::size_t begin, std::size_t end) const {
  return vocabulary_.find(piece.substr(begin, end - begin));
}

// One part a byte, and a last one that marks the end.
void PieceEncoder::start(std::string_view piece) {
  const auto size = static_cast<std::uint32_t>(piece.size());
  parts_.clear();
  for (std::uint32_t i = 0; i <= size; ++i) {
    const std::uint32_t rank = i + 2 <= size ? joined_rank(piece, i, i + 2) : Vocabulary::kNone;
    parts_.push_back({i, rank, i - 1, i + 1});
  }
}

void PieceEncoder::merge_short(std::string_view piece) {
  for (;;) {
    // min_element returns the first of equals: the leftmost pair of the lowest rank.
    const auto best = std::min_element(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; });
    if (best->rank == Vocabulary::kNone) return;
    const auto index = static_cast<std::size_t>(best - parts_.begin());
    parts_.erase(best + 1);
    const auto rejoin = [&](std::size_t i) {
      parts_[i].rank = i + 2 < parts_.size() ? joined_rank(piece, parts_[i].begin, parts_[i + 2].begin) : Vocabulary::kNone;
    };
    rejoin(index);
    if (index > 0) rejoin(index - 1);
  }
}

// The pairs wait in a heap ordered by (rank, position). A merge outdates its neighbours' entries instead of removing them: an entry
// counts only while the part at its position still has its rank. Positions are those of the part's first byte, which never change.
void PieceEncoder::merge_long(std::string_view piece) {
  const auto key = [](std::uint32_t rank, std::uint32_t position) { return static_cast<std::uint64_t>(rank) << 32 | position; };
  const std::uint32_t end = static_cast<std::uint32_t>(piece.size());
  heap_.clear();
  for (const Part& part : parts_) {
    if (part.rank != Vocabulary::kNone) heap_.push_back(key(part.rank, part.begin));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  const auto rejoin = [&](std::uint32_t position) {
    Part& part = parts_[position];
    part.rank = part.next < end ? joined_rank(piece, position, parts_[part.next].next) : Vocabulary::kNone;
    if (part.rank == Vocabulary::kNone) return;
    heap_.push_back(key(part.rank, position));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto position = static_cast<std::uint32_t>(heap_.back());
    const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
    heap_.pop_back();
    Part& part = parts_[position];
    if (part.rank != rank) continue;
    Part& swallowed = parts_[part.next];
    swallowed.rank = Vocabulary::kNone;
    part.next = swallowed.next;
    parts_[part.next].previous = position;
    rejoin(position);
    if (position > 0) rejoin(part.previous);
  }
  // Leave only the live parts, as the short way does.
  std::size_t live = 0;
  for (std::uint32_t position = 0; position < end;) {
    const Part part = parts_[position];
    parts_[live++] = part;
    position = part.next;
  }
  parts_[live++] = parts_[end];
  parts_.resize(live);
}

void PieceEncoder::encode(std::string_view piece, std::vector<TokenId>& out) {
  if (const std::uint32_t rank = vocabulary_.find(piece); rank != Vocabulary::kNone) {
    out.push_back(static_cast<TokenId>(rank));
    return;
  }
  start(piece);
  if (piece.size() <= kShortPiece) {
    merge_short(piece);
  } else {
    merge_long(piece);
  }
  for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
    out.push_back(static_cast<TokenId>(joined_rank(piece, parts_[i].begin, parts_[i + 1].begin)));
  }
}

void encode_ordinary(std::string_view text, PieceEncoder& encoder, std::vector<TokenId>& out) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin);
    encoder.encode(text.substr(begin, end - begin), out);
    begin = end;
  }
}

}  // namespace k3::text
