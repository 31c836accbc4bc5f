# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0

# Turns 64 hexadecimal digits into 43 of base64 and a '='.
function(ddpbench_base64_of_sha256 hex result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  # Three digits are two characters. 66 digits are 44 characters, of which the last is padding.
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

# Reads the files, one after the other, into the variable `result`.
function(ddpbench_read_page_asset result)
  set(content "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    foreach(forbidden "]]>" "</" "<!--" ")embedded\"")
      string(FIND "${text}" "${forbidden}" found)
      if(NOT found EQUAL -1)
        message(FATAL_ERROR "${file} may not contain ${forbidden}: it is embedded in pages.")
      endif()
    endforeach()
    string(APPEND content "${text}")
  endforeach()
  set(${result} "${content}" PARENT_SCOPE)
endfunction()

# Sets <name>_TEXT and <name>_HASH from style sheets or a script. A page puts the text between
# <style> or <script> tags; the comment around CDATA makes XML readers take it as text, too.
function(ddpbench_embed_page_asset name)
  ddpbench_read_page_asset(content ${ARGN})
  set(text "/*<![CDATA[*/\n${content}/*]]>*/")
  string(SHA256 hex "${text}")
  ddpbench_base64_of_sha256(${hex} hash)
  set(${name}_TEXT "${text}" PARENT_SCOPE)
  set(${name}_HASH "sha256-${hash}" PARENT_SCOPE)
endfunction()

# Writes a source that defines reports/html/sections.h: the style sheets of a page and report.js.
function(ddpbench_embed_page_assets reports output)
  ddpbench_embed_page_asset(STYLE ${reports}/pictures/pictures.css ${reports}/html/report.css)
  ddpbench_embed_page_asset(SCRIPT ${reports}/html/report.js)
  configure_file(${reports}/html/assets.cpp.in ${output} @ONLY)
endfunction()

# Writes a source that defines kFileStyle of reports/pictures/picture.h: pictures.css without
# comments, with each variable replaced by its light value.
function(ddpbench_embed_picture_style reports output)
  ddpbench_read_page_asset(style ${reports}/pictures/pictures.css)
  string(REGEX REPLACE "/\\*[^*]*\\*/" "" style "${style}")
  string(REGEX REPLACE "light-dark\\(([^,()]+), [^()]+\\)" "\\1" style "${style}")
  while(style MATCHES "  --([a-z0-9]+): ([^;]+);\n")
    set(definition "${CMAKE_MATCH_0}")
    set(variable "var(--${CMAKE_MATCH_1})")
    set(value "${CMAKE_MATCH_2}")
    string(REPLACE "${definition}" "" style "${style}")
    string(REPLACE "${variable}" "${value}" style "${style}")
  endwhile()
  string(REGEX REPLACE "^[\n]*:root {\n}[\n]*" "\n" STYLE "${style}")
  if(STYLE MATCHES "var\\(|light-dark|:root")
    message(FATAL_ERROR "pictures.css: a file of its own would hold a variable: ${STYLE}")
  endif()
  configure_file(${reports}/pictures/style.cpp.in ${output} @ONLY)
endfunction()
