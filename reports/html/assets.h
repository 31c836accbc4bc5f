// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// report.css and report.js as the build embedded them (cmake/EmbedPageAssets.cmake). Each text is
// wrapped so that a page stays well-formed XML. The hash of exactly that text goes into the page's
// Content-Security-Policy, so that no other style or script applies. Private to reports/.
#pragma once

#include <string_view>

namespace ddpbench::report::html {

struct Asset {
  std::string_view text;
  std::string_view hash;  // "sha256-...", base64
};
extern const Asset kStyle;
extern const Asset kScript;

}  // namespace ddpbench::report::html
