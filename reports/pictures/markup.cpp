// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/markup.h"

#include <cstdint>
#include <utility>

#include "base/error.h"

namespace ddpbench::report::pictures {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The UTF-8 character at the front of a text; length 0 if its bytes are not valid.
struct Character {
  std::size_t length = 0;
  std::uint32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms are not valid
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  std::uint32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  if (code < kLeast[length] || code > 0x10FFFF) return {};
  return {length, code};
}

bool within(std::uint32_t code, std::uint32_t first, std::uint32_t last) {
  return code >= first && code <= last;
}

bool is_allowed(std::uint32_t code) {
  if (code < 0x20) return code == '\n' || code == '\t';
  const bool control = within(code, 0x7F, 0x9F);
  const bool surrogate_or_none = within(code, 0xD800, 0xDFFF) || (code & 0xFFFE) == 0xFFFE;
  const bool direction = within(code, 0x202A, 0x202E) || within(code, 0x2066, 0x2069) ||
                         code == 0x200E || code == 0x200F;
  return !control && !surrogate_or_none && !direction;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.length == 0 || !is_allowed(character.code)) {
      result += kReplacement;
    } else if (character.code == '&') {
      result += "&amp;";
    } else if (character.code == '<') {
      result += "&lt;";
    } else if (character.code == '>') {
      result += "&gt;";
    } else if (character.code == '"') {
      result += "&quot;";
    } else if (character.code == '\'') {
      result += "&#39;";
    } else {
      result += text.substr(0, character.length);
    }
    text.remove_prefix(character.length == 0 ? 1 : character.length);
  }
  return result;
}

void Markup::begin(std::string_view tag, Attributes attributes) {
  text_ += '<';
  text_ += tag;
  for (const Attribute& attribute : attributes) {
    if (attribute.name.empty()) continue;
    text_ += ' ';
    text_ += attribute.name;
    text_ += "=\"" + escaped(attribute.value) + '"';
  }
}

Markup& Markup::open(std::string_view tag, Attributes attributes) {
  begin(tag, attributes);
  text_ += '>';
  open_.emplace_back(tag);
  return *this;
}

Markup& Markup::close() {
  if (open_.empty()) throw InternalError("the page closes an element that is not open");
  text_ += "</" + open_.back() + '>';
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  text_ += escaped(text);
  return *this;
}

Markup& Markup::leaf(std::string_view tag, Attributes attributes, std::string_view content) {
  return open(tag, attributes).text(content).close();
}

Markup& Markup::empty(std::string_view tag, Attributes attributes) {
  begin(tag, attributes);
  text_ += "/>";
  return *this;
}

Markup& Markup::trusted(std::string_view text) {
  text_ += text;
  return *this;
}

std::string Markup::take() {
  if (!open_.empty()) {
    throw InternalError("the page ends within the element " + open_.back());
  }
  return std::exchange(text_, {});
}

}  // namespace ddpbench::report::pictures
