# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
ddpbench_add_tests(bench_options_tests
  SOURCES
    cli_document.cpp
    command_options_test.cpp
    completion_test.cpp
    option_conditions_test.cpp
    option_schema.cpp
    options_command_test.cpp
    options_config_file_test.cpp
    options_document_test.cpp
    options_environment_test.cpp
    options_injection_test.cpp
    options_source_test.cpp
    options_round_trip_test.cpp
    options_value_test.cpp
    report_strategies_test.cpp
    run_list_test.cpp
    sweep_plan_test.cpp
    sweep_schedule_test.cpp
    resume_test.cpp
  LIBRARIES ddpbench::bench ddpbench_schema_validator)
target_compile_definitions(bench_options_tests PRIVATE
  DDPBENCH_BINARY="$<TARGET_FILE:ddpbench>"
  DDPBENCH_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  DDPBENCH_TEST_BINARY_DIR="${CMAKE_BINARY_DIR}"
  DDPBENCH_TEST_VERSION="${PROJECT_VERSION}")
add_dependencies(bench_options_tests ddpbench)
