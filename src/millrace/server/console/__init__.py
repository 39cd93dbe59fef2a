"""The console: what the engine does and what it was asked, as pages for a browser.

A page asks what any client may ask (`asked.Asked`), in the name of whoever has logged in.
Everything a browser needs comes from this process: no asset is from elsewhere.
"""
