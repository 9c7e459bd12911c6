// Thompson's construction, then the sets of its states that strings lead to.
#include <algorithm>
#include <compare>
#include <map>
#include <unordered_map>
#include <utility>

#include "model/grammar/pattern.hpp"

namespace k3::grammar {
namespace {

struct Node {
  enum class Kind : std::uint8_t { characters, split, begin, end, found };
  Kind kind = Kind::split;
  Characters characters;
  std::uint32_t next = 0, other = 0;  // `other`: of split
};

class NodeWriter {
 public:
  explicit NodeWriter(std::size_t limit) : limit_(limit) {}

  // Nodes are written back to front: the address of what comes after is known. False if there are too many.
  bool write(const PatternNode& pattern) {
    put({Node::Kind::found, {}, 0, 0});
    std::uint32_t first = 0;
    if (!write(pattern, 0, first)) return false;
    // The match may begin anywhere.
    const std::uint32_t search = put({Node::Kind::split, {}, first, 0});
    const std::uint32_t any = put({Node::Kind::characters, Characters::all(), search, 0});
    nodes[search].other = any;
    start = search;
    return true;
  }

  std::vector<Node> nodes;
  std::uint32_t start = 0;

 private:
  std::uint32_t put(Node node) {
    nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }

  bool write(const PatternNode& pattern, std::uint32_t next, std::uint32_t& first) {
    if (nodes.size() > limit_) return false;
    using Kind = PatternNode::Kind;
    first = next;
    switch (pattern.kind) {
      case Kind::empty:
        return true;
      case Kind::characters:
        first = put({Node::Kind::characters, pattern.characters, next, 0});
        return true;
      case Kind::begin:
      case Kind::end:
        first = put({pattern.kind == Kind::begin ? Node::Kind::begin : Node::Kind::end, {}, next, 0});
        return true;
      case Kind::sequence:
        for (auto part = pattern.parts.rbegin(); part != pattern.parts.rend(); ++part) {
          if (!write(*part, first, first)) return false;
        }
        return true;
      case Kind::choice:
        return choice(pattern, next, first);
      case Kind::repeat:
        return repeat(pattern, next, first);
    }
    return true;
  }

  bool choice(const PatternNode& pattern, std::uint32_t next, std::uint32_t& first) {
    if (!write(pattern.parts.back(), next, first)) return false;
    for (std::size_t i = pattern.parts.size() - 1; i-- > 0;) {
      std::uint32_t option = 0;
      if (!write(pattern.parts[i], next, option)) return false;
      first = put({Node::Kind::split, {}, option, first});
    }
    return true;
  }

  bool repeat(const PatternNode& pattern, std::uint32_t next, std::uint32_t& first) {
    const PatternNode& body = pattern.parts.front();
    first = next;
    if (pattern.max == unbounded) {
      const std::uint32_t again = put({Node::Kind::split, {}, next, next});
      std::uint32_t inner = 0;
      if (!write(body, again, inner)) return false;
      nodes[again].next = inner;
      first = again;
    } else {
      for (std::uint32_t i = pattern.min; i < pattern.max; ++i) {
        std::uint32_t inner = 0;
        if (!write(body, first, inner)) return false;
        first = put({Node::Kind::split, {}, inner, next});
      }
    }
    for (std::uint32_t i = 0; i < pattern.min; ++i) {
      // A body that writes no node repeats nothing, however often.
      const std::size_t before = nodes.size();
      if (!write(body, first, first)) return false;
      if (nodes.size() == before) break;
    }
    return true;
  }

  const std::size_t limit_;
};

using Set = std::vector<std::uint32_t>;  // ascending

class SubsetConstruction {
 public:
  SubsetConstruction(const std::vector<Node>& nodes, AutomatonBudget& budget)
      : nodes_(nodes), budget_(budget), marks_(nodes.size()) {}

  std::optional<Automaton> run(std::uint32_t start) {
    number(closure({start}, true), true);
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if (exhausted_) return std::nullopt;
      const Set set = sets_[i];
      expand(i, set);
    }
    if (exhausted_) return std::nullopt;
    return Automaton::of(std::move(states_));
  }

 private:
  // What `set` leads to without a character. `begin`: nothing was read so far. Once the pattern is found the rest does not matter.
  Set closure(Set pending, bool begin, bool end = false) {
    ++mark_;
    Set out;
    while (!pending.empty()) {
      const std::uint32_t at = pending.back();
      pending.pop_back();
      if (marks_[at] == mark_) continue;
      marks_[at] = mark_;
      if (!budget_.take_work(1)) {
        exhausted_ = true;
        return {};
      }
      const Node& node = nodes_[at];
      const bool passes =
          node.kind == Node::Kind::split || (begin && node.kind == Node::Kind::begin) || (end && node.kind == Node::Kind::end);
      if (node.kind == Node::Kind::found) return {at};
      if (passes) pending.push_back(node.next);
      if (node.kind == Node::Kind::split) pending.push_back(node.other);
      if (node.kind == Node::Kind::characters || node.kind == Node::Kind::end) out.push_back(at);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  struct Change {
    char32_t place;
    bool begins;  // of two ranges that meet, the one that ends comes first
    std::uint32_t node;
    auto operator<=>(const Change&) const = default;
  };
  struct SetHash {
    std::size_t operator()(const std::pair<Set, bool>& key) const {
      std::size_t hash = key.second ? 1 : 0;
      for (const std::uint32_t member : key.first) hash = (hash ^ member) * 0x9e3779b97f4a7c15U;
      return hash ^ (hash >> 32);
    }
  };

  bool is_found(const Set& set) const { return set.size() == 1 && nodes_[set[0]].kind == Node::Kind::found; }

  std::uint32_t number(const Set& set, bool begin) {
    // Of what waits at the end, all of it is looked at: the end may come now.
    const bool waits = std::any_of(set.begin(), set.end(), [&](std::uint32_t at) { return nodes_[at].kind == Node::Kind::end; });
    const bool accepts = is_found(set) || (waits && is_found(closure(set, begin, true)));
    const auto [place, is_new] = numbers_.try_emplace({set, accepts}, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) {
      if (!budget_.take_state()) exhausted_ = true;
      sets_.push_back(set);
      states_.emplace_back();
      states_.back().accepts = accepts;
    }
    return place->second;
  }

  void expand(std::size_t id, const Set& set) {
    if (is_found(set)) {
      const Characters all = Characters::all();
      for (const auto& range : all.ranges()) {
        states_[id].edges.push_back({range.first, range.last, static_cast<std::uint32_t>(id)});
      }
      return;
    }
    // Where ranges begin and end; between two such places all characters lead to the same set.
    std::vector<Change> changes;
    for (const std::uint32_t at : set) {
      if (nodes_[at].kind != Node::Kind::characters) continue;
      for (const auto& range : nodes_[at].characters.ranges()) {
        changes.push_back({range.first, true, at});
        changes.push_back({range.last + 1, false, at});
      }
    }
    if (!budget_.take_work(changes.size())) exhausted_ = true;
    std::sort(changes.begin(), changes.end());
    Set open;                              // the nodes that take the characters from here on
    std::map<Set, std::uint32_t> targets;  // by the nodes that take a character
    for (auto change = changes.begin(); change != changes.end() && !exhausted_;) {
      const char32_t first = change->place;
      for (; change != changes.end() && change->place == first; ++change) {
        const auto where = std::lower_bound(open.begin(), open.end(), change->node);
        if (change->begins) {
          open.insert(where, change->node);
        } else {
          open.erase(where);
        }
      }
      if (open.empty()) continue;
      const auto [known, is_new] = targets.try_emplace(open, 0);
      if (is_new) known->second = target_of(open);
      states_[id].edges.push_back({first, change->place - 1, known->second});
    }
  }

  std::uint32_t target_of(const Set& takers) {
    Set next;
    for (const std::uint32_t at : takers) next.push_back(nodes_[at].next);
    return number(closure(std::move(next), false), false);
  }

  const std::vector<Node>& nodes_;
  AutomatonBudget& budget_;
  std::vector<std::uint32_t> marks_;  // [node], the closure that was there last
  std::uint32_t mark_ = 0;
  std::unordered_map<std::pair<Set, bool>, std::uint32_t, SetHash> numbers_;
  std::vector<Set> sets_;
  std::vector<Automaton::State> states_;
  bool exhausted_ = false;
};

}  // namespace

boost::system::result<Automaton, std::string> pattern_automaton(const PatternNode& pattern, std::size_t size,
                                                                AutomatonBudget& budget) {
  NodeWriter writer(size);
  if (!writer.write(pattern)) return "more than " + std::to_string(size) + " characters once its counts are written out";
  auto automaton = SubsetConstruction(writer.nodes, budget).run(writer.start);
  if (!automaton) return std::string("too many states; make its counts smaller or anchor it");
  return std::move(*automaton);
}

}  // namespace k3::grammar
