# SPDX-License-Identifier: Apache-2.0
#
# The R interpreter of a session: takes cells, runs them, says how they ended.
# Sent into the sandbox by gloveboxd and run by the image's R as the session's
# user. It speaks the frames of src/wire/kernel_msg.h on descriptor 3, which is
# a socket; R opens no inherited socket, so two cat processes carry the bytes.
# They ignore the interrupt that is meant for a cell.
local({
    READY <- 16L; DISPLAY <- 17L; RESULT <- 18L; ERROR <- 19L; DONE <- 20L
    SYNC <- 21L; EXECUTE <- 1L; ENVIRONMENT <- 3L
    VALUE_MAX <- 8388608L
    LINES_MAX <- 60L

    from <- pipe("trap '' INT; exec cat <&3", "rb")
    to <- pipe("trap '' INT; exec cat >&3", "wb")

    # ---- frames ---------------------------------------------------------

    uint <- function(n) writeBin(as.integer(n), raw(), endian = "little")

    # cat passes on what it has, so a read may be short.
    take <- function(n) {
        got <- raw()
        while (length(got) < n) {
            part <- readBin(from, "raw", n - length(got))
            if (length(part) == 0L)
                base::quit("no", 0L, FALSE) # gloveboxd is gone
            got <- c(got, part)
        }
        got
    }
    number <- function(bytes) readBin(bytes, "integer", 1L, endian = "little")
    receive <- function() {
        kind <- number(take(4L))
        size <- number(take(4L))
        list(kind = kind, payload = if (size > 0L) take(size) else raw())
    }
    send <- function(kind, payload = raw()) {
        writeBin(c(uint(kind), uint(length(payload)), payload), to)
        flush(to)
    }
    bytes <- function(text) {
        b <- charToRaw(enc2utf8(paste(text, collapse = "\n")))
        if (length(b) > VALUE_MAX) b[seq_len(VALUE_MAX)] else b
    }
    pair <- function(key, value) {
        k <- charToRaw(key)
        v <- if (is.raw(value)) value else bytes(value)
        c(uint(length(k)), uint(length(v)), k, v)
    }
    sync <- function() {
        send(SYNC)
        receive() # SYNCED: nothing else is sent while a cell runs
    }

    # ---- plots ----------------------------------------------------------

    plots <- file.path(tempdir(), "plots")
    open_plot <- function(...) {
        dir.create(plots, showWarnings = FALSE)
        grDevices::png(file.path(plots, "plot-%04d.png"), width = 800,
                       height = 600, res = 110,
                       type = if (capabilities("cairo")) "cairo" else "Xlib")
    }
    show_plots <- function() {
        if (!dir.exists(plots))
            return(invisible())
        grDevices::graphics.off()
        for (file in sort(list.files(plots, full.names = TRUE))) {
            size <- file.info(file)$size
            if (!is.na(size) && size > 0 && size <= VALUE_MAX)
                send(DISPLAY, c(pair("image/png", readBin(file, "raw", size)),
                                pair("text/plain", "[plot]")))
        }
        unlink(plots, recursive = TRUE)
    }

    # ---- errors ---------------------------------------------------------

    call_text <- function(call) {
        text <- tryCatch(deparse(call, width.cutoff = 120L, nlines = 1L),
                         error = function(e) "")
        substr(text[1L], 1L, 200L)
    }
    # Calls of the cell, without those of this driver around it.
    user_calls <- function(calls) {
        at <- which(vapply(calls, function(call)
            identical(call[[1L]], quote(glovebox_eval)), logical(1)))
        if (length(at))
            calls <- calls[-seq_len(max(at) + 1L)]
        calls[!vapply(calls, function(call)
            identical(call[[1L]], quote(.handleSimpleError)) ||
                identical(call[[1L]], quote(h)) ||
                identical(call[[1L]], quote(stop)), logical(1))]
    }
    send_error <- function(name, message, call, calls) {
        if (identical(call, quote(eval(expr, globalenv()))))
            call <- NULL # the cell itself
        where <- if (is.null(call)) "" else paste0(" in ", call_text(call))
        head <- paste0("Error", where, " : ", message)
        lines <- head
        if (length(calls))
            lines <- c(lines, "Calls:",
                       paste0("  ", vapply(rev(utils::tail(calls, LINES_MAX)),
                                           call_text, "")))
        payload <- c(pair("name", name), pair("message", message),
                     pair("brief", substr(head, 1L, 2000L)))
        for (line in lines)
            payload <- c(payload, pair("traceback", line))
        send(ERROR, payload)
    }

    # ---- running --------------------------------------------------------

    # quit() ends the cell: the interpreter goes on.
    leave <- function(save = "no", status = 0, runLast = TRUE)
        stop(structure(class = c("glovebox_exit", "condition"),
                       list(message = "exit", call = NULL, status = status)))
    tools <- attach(NULL, name = "glovebox")
    assign("q", leave, tools)
    assign("quit", leave, tools)

    tell <- function(...) {
        sync()
        base::cat(..., file = stderr(), sep = "")
        sync()
    }
    on_message <- function(m) {
        tell(conditionMessage(m))
        invokeRestart("muffleMessage")
    }
    on_warning <- function(w) {
        call <- conditionCall(w)
        if (identical(call, quote(eval(expr, globalenv()))))
            call <- NULL # the cell itself
        tell("Warning message:\n",
             if (is.null(call)) "" else paste0("In ", call_text(call), " : "),
             conditionMessage(w), "\n")
        invokeRestart("muffleWarning")
    }

    glovebox_eval <- function(expr) withVisible(eval(expr, globalenv()))

    # The values of all expressions but the last are printed as R does; the
    # last one's text is the result of the cell.
    run <- function(source) {
        code <- parse(text = source, keep.source = TRUE,
                      srcfile = srcfilecopy("cell", source))
        for (i in seq_along(code)) {
            got <- glovebox_eval(code[[i]])
            if (!got$visible)
                next
            if (i < length(code) || inherits(got$value, c("ggplot", "trellis",
                                                          "recordedplot"))) {
                print(got$value)
                next
            }
            assign(".Last.value", got$value, globalenv())
            text <- utils::capture.output(print(got$value))
            send(RESULT, pair("text/plain", text))
        }
    }

    serve <- function(source) {
        calls <- NULL
        failed <- tryCatch({
            withCallingHandlers(run(source), message = on_message,
                                warning = on_warning, error = function(e)
                                    calls <<- user_calls(sys.calls()))
            FALSE
        }, glovebox_exit = function(e) {
            if (identical(as.integer(e$status), 0L))
                return(FALSE)
            send_error("ProcessExit", paste("exit status", e$status), NULL,
                       NULL)
            TRUE
        }, error = function(e) {
            send_error(class(e)[1L], conditionMessage(e), conditionCall(e),
                       calls)
            TRUE
        }, interrupt = function(e) {
            send_error("Interrupt", "the execution was interrupted", NULL,
                       NULL)
            TRUE
        })
        while (sink.number() > 0L)
            sink()
        tryCatch(show_plots(), error = function(e) NULL)
        send(DONE, c(uint(if (failed) 1L else 0L), uint(0L)))
    }

    set_environment <- function(text) {
        for (line in strsplit(text, "\n", fixed = TRUE)[[1L]]) {
            at <- regexpr("=", line, fixed = TRUE)
            if (at > 0L) {
                value <- list(substring(line, at + 1L))
                names(value) <- substr(line, 1L, at - 1L)
                do.call(Sys.setenv, value)
            } else if (nzchar(line)) {
                Sys.unsetenv(line)
            }
        }
    }

    options(device = open_plot, warn = 0L, menu.graphics = FALSE,
            width = 100L, error = NULL)
    send(READY)
    repeat {
        frame <- receive()
        text <- rawToChar(frame$payload)
        Encoding(text) <- "UTF-8"
        if (frame$kind == EXECUTE)
            serve(text)
        else if (frame$kind == ENVIRONMENT)
            set_environment(text)
    }
})
