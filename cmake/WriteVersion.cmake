# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs at every build (cmake -P). Fills TEMPLATE into OUTPUT with the present commit of SOURCE_DIR.
# configure_file leaves an unchanged file alone, so that no source is compiled again. VALUES, a file
# that the configuration wrote, sets all other variables of the template.
include(${VALUES})

set(GIT_COMMIT "")
set(GIT_DIRTY false)
set(GIT_REASON "")

# Runs git in the source directory; the first failure becomes the reason.
function(git_read result)
  # Git distrusts a checkout of another user, such as a copy in a container. The builder trusts it.
  execute_process(COMMAND ${GIT} -c safe.directory=${SOURCE_DIR} -C ${SOURCE_DIR} ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE message
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0 AND NOT GIT_REASON)
    string(REGEX REPLACE "[\n\"\\]" " " message "${message}")
    set(GIT_REASON "not built from a git checkout: ${message}" PARENT_SCOPE)
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

if(NOT GIT)
  set(GIT_REASON "git was not found when this was built")
else()
  git_read(top rev-parse --show-toplevel)
  if(NOT GIT_REASON)
    file(REAL_PATH "${top}" top)
    file(REAL_PATH "${SOURCE_DIR}" source)
    if(NOT top STREQUAL source)
      set(GIT_REASON "not built from a git checkout of its own")
    endif()
  endif()
  if(NOT GIT_REASON)
    git_read(commit rev-parse HEAD)
    # --untracked-files=no: a file that was never added is not part of the build.
    git_read(changes --no-optional-locks status --porcelain --untracked-files=no)
  endif()
  if(NOT GIT_REASON)
    set(GIT_COMMIT ${commit})
    if(changes)
      set(GIT_DIRTY true)
    endif()
  endif()
endif()

if(GIT_REASON AND GIVEN_COMMIT)
  set(GIT_COMMIT ${GIVEN_COMMIT})
  set(GIT_REASON "the commit was given when this was built, from a copy of its sources")
endif()

configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
