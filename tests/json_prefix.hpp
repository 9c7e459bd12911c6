// Is this the beginning of a JSON document? A scanner that takes bytes as they come, for tests of what is streamed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace k3::test {

// Knows after every byte whether the text so far can be extended to a valid document, and one way to do that: completion() is the
// proof, to be read by another parser together with the text. White space between tokens is taken; UTF-8 is not looked at.
class JsonPrefix {
 public:
  // False once the text is the beginning of no document, and from then on.
  bool push(std::string_view bytes) {
    for (const char c : bytes) alive_ = alive_ && take(c);
    return alive_;
  }
  // The text so far is a document; a number at the top may still go on.
  bool complete() const { return alive_ && open_.empty() && completion().empty(); }
  // What ends the document from here. Precondition: the last push() gave true.
  std::string completion() const {
    std::string out = end_of_token();
    if (token_ == Token::none && want_ == Want::value) out += "0";
    if (token_ == Token::none && want_ == Want::key) out += R"("":0)";
    if (want_ == Want::colon) out += ":0";
    for (auto each = open_.rbegin(); each != open_.rend(); ++each) out += *each == '{' ? '}' : ']';
    return out;
  }

 private:
  enum class Want { value, first_item, first_key, key, colon, rest };
  enum class Token { none, string, literal, number };
  enum class Digits { sign, zero, whole, point, fraction, e, e_sign, exponent };

  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static bool space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  // Completes a token that has begun; after a string that was a key comes the colon too.
  std::string end_of_token() const {
    if (token_ == Token::string) return end_of_escape() + (key_ ? "\":0" : "\"");
    if (token_ == Token::literal) return std::string(literal_);
    const bool needs_digit =
        digits_ == Digits::sign || digits_ == Digits::point || digits_ == Digits::e || digits_ == Digits::e_sign;
    return token_ == Token::number && needs_digit ? "0" : "";
  }

  std::string end_of_escape() const {
    if (low_needed_) return std::string(R"(\udc00)").substr(escape_.size());
    if (escape_.empty()) return {};
    if (escape_ == "\\") return "n";
    std::string out(6 - escape_.size(), '0');
    // \ud8.. to \udb.. is one half of a character.
    if (escape_.size() >= 4 && is_d(escape_[2]) && escape_[3] >= '8' && !is_low(escape_[3])) return out + R"(\udc00)";
    return out;
  }
  static bool is_d(char c) { return c == 'd' || c == 'D'; }
  static bool is_low(char c) { return (c >= 'c' && c <= 'f') || (c >= 'C' && c <= 'F'); }
  static bool is_hex(char c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

  bool take(char c) {
    if (token_ == Token::string) return in_string(c);
    if (token_ == Token::literal) {
      if (literal_.front() != c) return false;
      literal_.remove_prefix(1);
      if (literal_.empty()) token_ = Token::none;
      return true;
    }
    if (token_ == Token::number) {
      if (in_number(c)) return true;
      if (!end_of_token().empty()) return false;
      token_ = Token::none;
    }
    return space(c) || between(c);
  }

  bool between(char c) {
    if (want_ == Want::colon) {
      want_ = Want::value;
      return c == ':';
    }
    if (want_ == Want::first_key || want_ == Want::key) {
      if (want_ == Want::first_key && c == '}') return close('{');
      key_ = true;
      token_ = Token::string;
      return c == '"';
    }
    if (want_ == Want::rest) {
      if (open_.empty()) return false;
      if (c != ',') return close(c == '}' ? '{' : c == ']' ? '[' : ' ');
      want_ = open_.back() == '{' ? Want::key : Want::value;
      return true;
    }
    if (want_ == Want::first_item && c == ']') return close('[');
    return value(c);
  }

  bool close(char opener) {
    if (open_.back() != opener) return false;
    open_.pop_back();
    want_ = Want::rest;
    return true;
  }

  bool value(char c) {
    want_ = Want::rest;
    if (c == '{' || c == '[') {
      open_.push_back(c);
      want_ = c == '{' ? Want::first_key : Want::first_item;
      return true;
    }
    if (c == '"') {
      key_ = false;
      token_ = Token::string;
      return true;
    }
    if (c == '-' || digit(c)) {
      token_ = Token::number;
      digits_ = c == '-' ? Digits::sign : c == '0' ? Digits::zero : Digits::whole;
      return true;
    }
    token_ = Token::literal;
    literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    return c == 't' || c == 'f' || c == 'n';
  }

  bool in_string(char c) {
    if (!escape_.empty()) return in_escape(c);
    if (c == '\\') {
      escape_ = c;
      return true;
    }
    if (low_needed_ || static_cast<unsigned char>(c) < 0x20) return false;
    if (c == '"') {
      token_ = Token::none;
      want_ = key_ ? Want::colon : Want::rest;
    }
    return true;
  }

  bool in_escape(char c) {
    escape_ += c;
    if (escape_.size() == 2) {
      if (c == 'u') return true;
      escape_.clear();
      return !low_needed_ && std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    }
    if (!is_hex(c)) return false;
    const bool surrogate = is_d(escape_[2]) && escape_.size() >= 4 && (escape_[3] >= '8');
    const bool low = surrogate && is_low(escape_[3]);
    if (escape_.size() == 4 && low != low_needed_) return false;
    if (escape_.size() == 3 && low_needed_ && !is_d(c)) return false;
    if (escape_.size() < 6) return true;
    low_needed_ = surrogate && !low;
    escape_.clear();
    return true;
  }

  bool in_number(char c) {
    const bool e = c == 'e' || c == 'E';
    switch (digits_) {
      case Digits::sign:
        return go(c == '0', Digits::zero) || go(digit(c), Digits::whole);
      case Digits::zero:
        return go(c == '.', Digits::point) || go(e, Digits::e);
      case Digits::whole:
        return digit(c) || go(c == '.', Digits::point) || go(e, Digits::e);
      case Digits::point:
        return go(digit(c), Digits::fraction);
      case Digits::fraction:
        return digit(c) || go(e, Digits::e);
      case Digits::e:
        return go(c == '+' || c == '-', Digits::e_sign) || go(digit(c), Digits::exponent);
      case Digits::e_sign:
        return go(digit(c), Digits::exponent);
      case Digits::exponent:
        return digit(c);
    }
    return false;
  }
  bool go(bool taken, Digits next) {
    if (taken) digits_ = next;
    return taken;
  }

  std::vector<char> open_;  // brackets and braces not yet closed
  Want want_ = Want::value;
  Token token_ = Token::none;
  Digits digits_ = Digits::sign;
  bool key_ = false;  // the string is a member's name
  bool low_needed_ = false;
  bool alive_ = true;
  std::string escape_;        // of a string, what has come since the backslash
  std::string_view literal_;  // what is still to come of it
};

}  // namespace k3::test
