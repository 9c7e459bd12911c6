#include "model/grammar/expression.hpp"

#include <cassert>
#include <utility>

namespace k3::grammar {

ByteSet byte_range(unsigned char first, unsigned char last) {
  ByteSet set;
  for (unsigned byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

struct Expression::Node {
  Kind kind = Kind::bytes;
  std::string literal;
  ByteSet set;
  std::uint32_t index = 0;  // the rule's, or the token's id
  std::uint32_t min = 0, max = 0;
  std::vector<Expression> parts;
};

Expression::Expression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

Expression::Expression() {
  static const auto empty = std::make_shared<const Node>();
  node_ = empty;
}

Expression Expression::bytes(std::string_view text) {
  auto node = std::make_shared<Node>();
  node->literal = text;
  return Expression(std::move(node));
}

Expression Expression::byte_class(const ByteSet& set) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::byte_class;
  node->set = set;
  return Expression(std::move(node));
}

Expression Expression::token(TokenId id) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::token;
  node->index = static_cast<std::uint32_t>(id);
  return Expression(std::move(node));
}

Expression Expression::sequence(std::vector<Expression> parts) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::sequence;
  node->parts = std::move(parts);
  return Expression(std::move(node));
}

Expression Expression::choice(std::vector<Expression> options) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::choice;
  node->parts = std::move(options);
  return Expression(std::move(node));
}

Expression Expression::repeat(Expression body, std::uint32_t min, std::uint32_t max) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::repeat;
  node->min = min;
  node->max = max;
  node->parts.push_back(std::move(body));
  return Expression(std::move(node));
}

Expression Expression::rule(RuleIndex index) {
  auto node = std::make_shared<Node>();
  node->kind = Kind::rule;
  node->index = index;
  return Expression(std::move(node));
}

Expression Expression::text() { return repeat(byte_class(ByteSet().set()), 0, unbounded); }

Expression::Kind Expression::kind() const { return node_->kind; }
const std::string& Expression::literal() const { return node_->literal; }
const ByteSet& Expression::set() const { return node_->set; }
TokenId Expression::id() const { return static_cast<TokenId>(node_->index); }
RuleIndex Expression::index() const { return node_->index; }
const std::vector<Expression>& Expression::parts() const { return node_->parts; }
std::uint32_t Expression::min() const { return node_->min; }
std::uint32_t Expression::max() const { return node_->max; }

RuleIndex Rules::add(Expression body) {
  bodies_.push_back(std::move(body));
  return static_cast<RuleIndex>(bodies_.size() - 1);
}

RuleIndex Rules::reserve() { return add(Expression::choice({})); }

void Rules::define(RuleIndex index, Expression body) {
  assert(index < bodies_.size());
  bodies_[index] = std::move(body);
}

}  // namespace k3::grammar
