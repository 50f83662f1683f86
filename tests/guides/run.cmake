# cmake -DPROGRAM=... -DPRINTS=... -P run.cmake: fails unless PROGRAM succeeds and prints what the file PRINTS holds.
execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error)
file(READ ${PRINTS} expected)
if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "exit status ${status}\nprinted:\n${output}${error}\nthe page says:\n${expected}")
endif()
