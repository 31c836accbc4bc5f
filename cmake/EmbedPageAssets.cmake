# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0

# 64 hexadecimal digits -> 43 of base64 and a '='.
function(ddpbench_base64_of_sha256 hex result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  # Three digits are two characters; 66 digits are 44, the last of which is padding.
  foreach(i RANGE 0 63 3)
    string(SUBSTRING "${hex}00" ${i} 3 digits)
    math(EXPR value "0x${digits}")
    math(EXPR high "${value} >> 6")
    math(EXPR low "${value} & 63")
    string(SUBSTRING ${alphabet} ${high} 1 first)
    string(SUBSTRING ${alphabet} ${low} 1 second)
    string(APPEND text "${first}${second}")
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)
  set(${result} "${text}=" PARENT_SCOPE)
endfunction()

# Sets <name>_TEXT and <name>_HASH from a style sheet or script. The text stands between <style> or
# <script> tags; the comment around CDATA lets XML readers take it as text too.
function(ddpbench_embed_page_asset name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} content)
  foreach(forbidden "]]>" "</" "<!--" ")embedded\"")
    string(FIND "${content}" "${forbidden}" found)
    if(NOT found EQUAL -1)
      message(FATAL_ERROR "${file} may not contain ${forbidden}: it is embedded in pages.")
    endif()
  endforeach()
  set(text "/*<![CDATA[*/\n${content}/*]]>*/")
  string(SHA256 hex "${text}")
  ddpbench_base64_of_sha256(${hex} hash)
  set(${name}_TEXT "${text}" PARENT_SCOPE)
  set(${name}_HASH "sha256-${hash}" PARENT_SCOPE)
endfunction()

# reports/html/report.css and report.js -> a source that defines reports/html/assets.h.
function(ddpbench_embed_page_assets folder output)
  ddpbench_embed_page_asset(STYLE ${folder}/report.css)
  ddpbench_embed_page_asset(SCRIPT ${folder}/report.js)
  configure_file(${folder}/assets.cpp.in ${output} @ONLY)
endfunction()
