"""What an operator gives Vector, so that the lines of a proxy's pods come here as they are.

Pure.
"""

RETRIES = "The shipper decides: Vector sends again on 408, 429 and 5xx until it is taken, with a disk buffer also over a restart of its own."


def vector_lines(app: str) -> str:
    """Vector's configuration for pods labelled `app.kubernetes.io/name=`*app*; as a `Snippet`'s
    text, with `{url}` and `{key}`.
    """
    return (
        "# Vector: the proxy's lines, as they are, to the gateway\n"
        "sources:\n"
        f"  proxy: {{{{type: kubernetes_logs, extra_label_selector: 'app.kubernetes.io/name={app}'}}}}\n"
        "sinks:\n"
        "  usage:\n"
        "    type: http\n"
        "    inputs: [proxy]\n"
        "    uri: {url}\n"
        "    method: post\n"
        "    encoding: {{codec: text}}\n"
        "    framing: {{method: newline_delimited}}\n"
        '    request: {{headers: {{Authorization: "{key}"}}}}\n'
        "    buffer: {{type: disk, max_size: 268435488}}\n"
    )
