#include "model/grammar/token_trie.hpp"

#include <algorithm>

namespace k3::grammar {

TokenTrie::TokenTrie(std::span<const std::string_view> spellings) {
  for (const std::string_view spelling : spellings) {
    bytes_ += spelling;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    longest_ = std::max(longest_, spelling.size());
  }
  build();
}

std::shared_ptr<const TokenTrie> TokenTrie::of(const text::Tokenizer& tokenizer) {
  std::vector<std::string_view> spellings(static_cast<std::size_t>(tokenizer.vocabulary_size()));
  for (text::TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_reserved(id)) spellings[static_cast<std::size_t>(id)] = tokenizer.bytes(id);
  }
  return of(spellings);
}

std::shared_ptr<const TokenTrie> TokenTrie::of(std::span<const std::string_view> spellings) {
  return std::shared_ptr<const TokenTrie>(new TokenTrie(spellings));
}

std::string_view TokenTrie::spelling(text::TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= ends_.size()) return {};
  const auto i = static_cast<std::size_t>(id);
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(bytes_).substr(begin, ends_[i] - begin);
}

void TokenTrie::build() {
  for (std::size_t id = 0; id < ends_.size(); ++id) {
    if (!spelling(static_cast<text::TokenId>(id)).empty()) tokens_.push_back(static_cast<text::TokenId>(id));
  }
  // Equal spellings stay in order of id, so that the trie is the same on every machine.
  std::sort(tokens_.begin(), tokens_.end(), [this](text::TokenId a, text::TokenId b) {
    const int order = spelling(a).compare(spelling(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<std::uint32_t> open;  // nodes from the root to the spelling before
  std::string_view before;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes_[open.back()].skip = static_cast<std::uint32_t>(nodes_.size());
  };
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view now = spelling(tokens_[i]);
    const auto [end, unused] = std::mismatch(now.begin(), now.end(), before.begin(), before.end());
    close_to(static_cast<std::size_t>(end - now.begin()));
    while (open.size() < now.size()) {
      const auto byte = static_cast<std::uint8_t>(now[open.size()]);
      open.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, i, static_cast<std::uint16_t>(open.size()), byte});
    }
    before = now;
  }
  close_to(0);
  const auto count = static_cast<std::uint32_t>(tokens_.size());
  tokens_.push_back(0);  // may be read, but not meant, by who looks for a token of the last node
  nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()), count, 0, 0});
}

}  // namespace k3::grammar
