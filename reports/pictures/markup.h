// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes markup that is well-formed as HTML and as XML: every element is closed, every attribute is
// quoted, and all text is escaped in this one place.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::report::pictures {

// Escapes text, also for values in double quotes. Characters that XML does not allow (controls),
// bytes that are not UTF-8, and characters that change the direction of text become U+FFFD.
std::string escaped(std::string_view text);

struct Attribute {
  std::string_view name;  // empty: the attribute is left out
  std::string value;
};
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  Markup& open(std::string_view tag, Attributes attributes = {});
  Markup& close();  // closes the innermost open element
  Markup& text(std::string_view text);
  // An element that holds only text.
  Markup& leaf(std::string_view tag, std::string_view text) { return leaf(tag, {}, text); }
  Markup& leaf(std::string_view tag, Attributes attributes, std::string_view text);
  // An element without content: meta, line, path.
  Markup& empty(std::string_view tag, Attributes attributes = {});
  // Writes `text` as it is: only for text of this program or of another Markup.
  Markup& trusted(std::string_view text);
  // Returns and clears the text written so far. Throws InternalError when an element is open.
  std::string take();

 private:
  void begin(std::string_view tag, Attributes attributes);
  std::string text_;
  std::vector<std::string> open_;
};

}  // namespace ddpbench::report::pictures
